"""EAGLE-3 heads (Li et al. 2025, arXiv 2503.01840), as SafeAILab and speculators publish them.

A head reads rows: row t is made of the target's hidden states of token t and of token t + 1, and
predicts token t + 2. Drafted rows have the head's own output in place of the hidden states. Here
all drafts of a completion are computed at once, one depth after the other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdec_harness.adapters._modules import module
from specdec_harness.tape import DraftRows


def eagle3(
    folder: str | os.PathLike[str], target: Any, taps: Optional[Sequence[int]] = None
) -> DraftRows:
    """The drafts of an EAGLE-3 head with one layer, in a folder with `config.json` and
    `model.safetensors`.

    `taps` are the numbers of layers after which the target's hidden states are taken. Without
    them, the configuration says it, or they are 2, n/2 and n − 3 of n layers. Engines differ in
    how they read the nested key `eagle_config`: it counts the outputs of layers from 0 here.
    """
    head = _Head(Path(folder), target, taps)

    def rows(prompt: NDArray[np.int64], tokens: NDArray[np.int64], k: int) -> Iterator[ArrayLike]:
        if len(prompt) < 2:
            raise ValueError("the prompt has fewer than two tokens: the head has no row before it")
        return head.drafts(np.concatenate([prompt, tokens]), len(prompt), k)

    return rows


class _Head:
    def __init__(self, folder: Path, target: Any, taps: Optional[Sequence[int]]) -> None:
        load_file = module("safetensors.torch").load_file
        llama = module("transformers.models.llama.modeling_llama")

        config = json.loads((folder / "config.json").read_text())
        self.target = target
        self.options = config
        layers = target.config.num_hidden_layers
        self.taps = list(taps or _taps(config, layers))
        for tap in self.taps:
            # transformers shows the output of the last layer after the final norm alone.
            if not 0 <= tap < layers:
                raise ValueError(
                    f"a tap is {tap}: allowed is 0 to {layers - 1}, after that many layers"
                )
        layer = _layer_config(config)
        self.eps = layer.rms_norm_eps
        self.heads, self.kv_heads = layer.num_attention_heads, layer.num_key_value_heads
        self.head_dim = layer.head_dim
        self.rotary = llama.LlamaRotaryEmbedding(layer).to(target.device)
        weights = load_file(folder / "model.safetensors", device=str(target.device))
        # SafeAILab calls the layer `midlayer`.
        named = {name.replace("midlayer.", "layers.0."): value for name, value in weights.items()}
        _check(folder, named, config, len(self.taps))
        self.weights = {
            name: value.float() if value.is_floating_point() else value
            for name, value in named.items()
        }
        self.vocab = target.config.vocab_size
        self.ids = self._target_ids(folder)

    def _target_ids(self, folder: Path) -> Any:
        """The target's ids of the head's tokens."""
        torch = module("torch")

        drafted = self.weights["lm_head.weight"].shape[0]
        offsets = self.weights.get("d2t")
        if offsets is None and drafted != self.vocab:
            raise ValueError(
                f"{folder} has no d2t, and its {drafted} tokens are not the {self.vocab} of the target"
            )
        ids = torch.arange(drafted, device=self.target.device)
        return ids if offsets is None else ids + offsets.to(ids.device)

    def drafts(self, known: NDArray[np.int64], prompt_len: int, k: int) -> Iterator[ArrayLike]:
        """For each token of the completion, the logits of a draft that begins there and follows it."""
        torch = module("torch")

        with torch.inference_mode():
            ids = torch.as_tensor(known, device=self.target.device)
            hidden = self._fused(ids[:-1])
            # Row t: hidden states of token t, token t + 1.
            logits, back, keys, values = self._rows(ids[1:], hidden, [])
            starts = torch.arange(prompt_len, len(ids), device=ids.device)
            # A draft that begins when there are s tokens follows row s − 2.
            found, back = [logits[starts - 2]], back[starts - 2]
            past = [(keys, values)]
            for depth in range(1, k):
                # Tokens after the completion are unknown, and no draft follows them.
                drafted = ids[(starts + depth - 1).clamp(max=len(ids) - 1)]
                logits, back, *own = self._rows(drafted, back, past, starts + depth - 2)
                past.append(tuple(own))
                found.append(logits)
            all_logits = torch.stack(found, dim=1)
        # One by one: the target's vocabulary may be several times the head's.
        return map(self._in_target_ids, all_logits)

    def _in_target_ids(self, logits: Any) -> NDArray[Any]:
        whole: NDArray[Any] = np.full((len(logits), self.vocab), -np.inf, dtype=np.float32)
        whole[:, self.ids.cpu().numpy()] = logits.float().cpu().numpy()
        return whole

    def _fused(self, ids: Any) -> Any:
        torch = module("torch")

        states = self.target(ids[None], output_hidden_states=True, use_cache=False).hidden_states
        parts = [states[tap][0].float() for tap in self.taps]
        if self.options.get("fc_norm"):
            parts = [self._rms(part, f"fc_norm.{i}") for i, part in enumerate(parts)]
        tapped = torch.cat(parts, dim=-1)
        if self.options.get("norm_before_fc"):
            tapped = self._rms(tapped, "input_norm")
        return tapped @ self.weights["fc.weight"].T

    def _rows(self, tokens: Any, hidden: Any, past: list[Any], positions: Any = None) -> Any:
        """Logits of rows, what they hand on, and their keys and values.

        Without `past`, the rows are those of consecutive tokens. With it, row i is the next one of
        draft i, which sees the rows up to that of its start, and its own.
        """
        torch = module("torch")
        silu = module("torch.nn.functional").silu

        layer = "layers.0."
        embedded = self._rms(self._embed(tokens), layer + "input_layernorm")
        normed = self._rms(hidden, layer + "hidden_norm")
        both = torch.cat([embedded, normed], dim=-1)
        if positions is None:
            positions = torch.arange(len(tokens), device=tokens.device)
        q, keys, values = self._attended(both, positions)
        seen = _all_before(q, keys, values) if not past else self._draft(q, keys, values, past)
        residual = normed if self.options.get("norm_before_residual") else hidden
        x = residual + seen.flatten(1) @ self.weights[layer + "self_attn.o_proj.weight"].T
        y = self._rms(x, layer + "post_attention_layernorm")
        gate, up, down = (self.weights[f"{layer}mlp.{name}_proj.weight"].T for name in _MLP)
        x = x + (silu(y @ gate) * (y @ up)) @ down
        out = self._rms(x, "norm")
        logits = out @ self.weights["lm_head.weight"].T
        return logits, out if self.options.get("norm_output") else x, keys, values

    def _attended(self, rows: Any, positions: Any) -> tuple[Any, Any, Any]:
        """Queries, keys and values (rows, heads, head_dim), of one head for each query."""
        llama = module("transformers.models.llama.modeling_llama")

        def of(name: str, heads: int) -> Any:
            weight = self.weights[f"layers.0.self_attn.{name}_proj.weight"]
            split = (rows @ weight.T).unflatten(1, (heads, self.head_dim))
            norm = f"layers.0.self_attn.{name}_norm"
            return self._rms(split, norm) if norm + ".weight" in self.weights else split

        cos, sin = self.rotary(rows[None], positions[None])
        q, keys = of("q", self.heads), of("k", self.kv_heads)
        q, keys = llama.apply_rotary_pos_emb(q[None], keys[None], cos, sin, unsqueeze_dim=2)
        groups = self.heads // self.kv_heads
        values = of("v", self.kv_heads).repeat_interleave(groups, 1)
        return q[0], keys[0].repeat_interleave(groups, 1), values

    def _draft(self, q: Any, keys: Any, values: Any, past: list[Any]) -> Any:
        """Attention of drafted rows: to the rows before the draft, and to those of the draft."""
        torch = module("torch")

        (first_keys, first_values), *own = past
        own = [*own, (keys, values)]
        count, scale = len(first_keys), q.shape[-1] ** -0.5
        before = torch.einsum("shd,thd->sht", q, first_keys)
        # Drafts begin at consecutive tokens, the last one after the last row but one.
        last = torch.arange(len(q), device=q.device) + count - len(q) - 1
        hidden = torch.arange(count, device=q.device)[None] > last[:, None]
        before = before.masked_fill(hidden[:, None], -torch.inf)
        within = torch.stack([(q * each).sum(-1) for each, _ in own], dim=-1)
        weights = (torch.cat([before, within], dim=-1) * scale).softmax(-1)
        seen = torch.einsum("sht,thd->shd", weights[..., :count], first_values)
        for at, (_, each) in enumerate(own):
            seen = seen + weights[..., count + at, None] * each
        return seen

    def _embed(self, tokens: Any) -> Any:
        own = self.weights.get("embed_tokens.weight")
        if own is not None:
            return own[tokens]
        return self.target.get_input_embeddings()(tokens).float()

    def _rms(self, x: Any, name: str) -> Any:
        torch = module("torch")

        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weights[name + ".weight"] * (x * scale)


_MLP = ("gate", "up", "down")
#: Tensors that a head may have in addition: none changes what it computes here, but the norms of
#: queries and keys, its own embedding and its map of tokens.
_OPTIONAL = {
    "embed_tokens.weight",
    "d2t",
    "t2d",
    "verifier_lm_head.weight",
    "verifier_norm.weight",
    "layers.0.self_attn.q_norm.weight",
    "layers.0.self_attn.k_norm.weight",
}


def _check(folder: Path, weights: dict[str, Any], config: dict[str, Any], taps: int) -> None:
    """Refuses a head that lacks a tensor, or has one that would be left out."""
    layer = ["input_layernorm", "hidden_norm", "post_attention_layernorm"]
    layer += [f"self_attn.{name}_proj" for name in ("q", "k", "v", "o")]
    layer += [f"mlp.{name}_proj" for name in _MLP]
    names = ["fc", "norm", "lm_head", *(f"layers.0.{name}" for name in layer)]
    if config.get("fc_norm"):
        names += [f"fc_norm.{i}" for i in range(taps)]
    if config.get("norm_before_fc"):
        names.append("input_norm")
    needed = {f"{name}.weight" for name in names}
    for name in sorted(needed - weights.keys()):
        raise ValueError(f"{folder} has no tensor {name}")
    for name in sorted(weights.keys() - needed - _OPTIONAL):
        raise ValueError(
            f"{folder} has the tensor {name}, which an EAGLE-3 head of one layer lacks"
        )


def _all_before(q: Any, keys: Any, values: Any) -> Any:
    """Causal attention of consecutive rows."""
    scaled_dot_product_attention = module("torch.nn.functional").scaled_dot_product_attention

    q, keys, values = (x.transpose(0, 1) for x in (q, keys, values))
    return scaled_dot_product_attention(q, keys, values, is_causal=True).transpose(0, 1)


def _taps(config: dict[str, Any], layers: int) -> list[int]:
    """After how many layers the hidden states are taken."""
    key = "eagle_aux_hidden_state_layer_ids"
    if config.get(key):
        return list(config[key])
    nested = (config.get("eagle_config") or {}).get(key)
    if nested:
        return [layer + 1 for layer in nested]
    return [2, layers // 2, layers - 3]


def _layer_config(config: dict[str, Any]) -> Any:
    """The configuration of the layer, which is one of Llama's."""

    layer = dict(config.get("transformer_layer_config") or config)
    layer.pop("model_type", None)
    return module("transformers").LlamaConfig(**layer)
