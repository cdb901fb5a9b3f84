"""DSpark heads, as DeepSpec publishes them for Qwen3 targets (deepspec/modeling/dspark).

A head drafts a block at once: a row for the last known token, the anchor, and a row for each mask
after it. All of them see the target's hidden states of the tokens before the anchor, and each other.
Row i predicts the token after its own, by its logits and a term that depends on the token before
the predicted one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdec_harness.adapters._modules import module
from specdec_harness.tape import DraftRows


def dspark(
    folder: str | os.PathLike[str], target: Any, *, least_confidence: float = 0.0
) -> DraftRows:
    """The drafts of a DSpark head, in a folder with `config.json` and `model.safetensors`.

    The block is as wide as the head was trained for, with any K: a row sees all masks. A draft ends
    before the first token whose confidence is below `least_confidence`. Confidences see the tokens
    before theirs alone, so that this choice of a length keeps the target's distribution.
    """
    if not 0.0 <= least_confidence <= 1.0:
        raise ValueError(f"least_confidence is {least_confidence}: allowed is a number from 0 to 1")
    head = _Head(Path(folder), target)
    if least_confidence > 0.0 and not head.options.enable_confidence_head:
        raise ValueError(f"{folder} has no confidences: allowed is least_confidence = 0")

    def rows(prompt: NDArray[np.int64], tokens: NDArray[np.int64], k: int) -> Iterator[ArrayLike]:
        if len(prompt) == 0:
            raise ValueError("the prompt is empty: a block begins with a known token")
        return head.drafts(np.concatenate([prompt, tokens]), len(prompt), k, least_confidence)

    return rows


class _Head:
    def __init__(self, folder: Path, target: Any) -> None:
        load_file = module("safetensors.torch").load_file

        config = json.loads((folder / "config.json").read_text())
        found = config.get("architectures")
        if found != [_ARCHITECTURE]:
            raise ValueError(f"{folder} has the architectures {found}: allowed is {_ARCHITECTURE}")
        self.target = target
        self.options = module("transformers").Qwen3Config(**config)
        layers = target.config.num_hidden_layers
        for tap in self.options.target_layer_ids:
            # transformers shows the output of the last layer after the final norm alone.
            if not -1 <= tap < layers - 1:
                raise ValueError(
                    f"{folder} has {tap} in target_layer_ids: allowed is -1 to {layers - 2}"
                )
        weights = load_file(folder / "model.safetensors", device=str(target.device))
        parts = _parts(self.options).to(target.device)
        missing, unused = parts.load_state_dict(weights, strict=False)
        for name in missing:
            raise ValueError(f"{folder} has no tensor {name}")
        for name in unused:
            raise ValueError(f"{folder} has the tensor {name}, which a DSpark head lacks")
        self.parts = parts.float().eval()

    def drafts(
        self, known: NDArray[np.int64], prompt_len: int, k: int, least: float
    ) -> Iterator[ArrayLike]:
        """For each token of the completion, the logits of a draft that begins there and follows it."""
        torch = module("torch")

        parts, width = self.parts, self.options.block_size
        with torch.inference_mode():
            ids = torch.as_tensor(known, device=self.target.device)
            context = self._context(ids[:-1])
            for anchor in range(prompt_len - 1, len(ids) - 1):
                y = self._block(ids[anchor], context, anchor)[:k]
                # Tokens after the completion are unknown, and no draft follows them.
                at = torch.arange(anchor, anchor + len(y), device=ids.device)
                before = ids[at.clamp(max=len(ids) - 1)]
                logits = parts["lm_head"](y)
                if self.options.markov_rank > 0:
                    logits = logits + self._markov(y, before)
                n = self._confident(y, before, least)
                yield logits[:n].cpu().numpy()

    def _context(self, ids: Any) -> list[tuple[Any, Any]]:
        """For each layer, the keys and values (heads, tokens, head_dim) of the target's tokens."""
        torch = module("torch")

        states = self.target(ids[None], output_hidden_states=True, use_cache=False).hidden_states
        taps = [states[tap + 1][0].float() for tap in self.options.target_layer_ids]
        rows = self.parts["hidden_norm"](self.parts["fc"](torch.cat(taps, dim=-1)))
        return [self._keys(layer.self_attn, rows, 0) for layer in self.parts["layers"]]

    def _block(self, anchor: Any, context: list[tuple[Any, Any]], position: int) -> Any:
        """The normed rows (block_size, d) of the block whose anchor stands at a position."""
        torch = module("torch")
        attention = module("torch.nn.functional").scaled_dot_product_attention

        tokens = torch.full((self.options.block_size,), self.options.mask_token_id)
        tokens = tokens.to(anchor.device)
        tokens[0] = anchor
        x = self.parts["embed_tokens"](tokens)
        for layer, before in zip(self.parts["layers"], context):
            own = layer.self_attn
            u = layer.input_layernorm(x)
            q = self._turned(own.q_norm(self._split(own.q_proj(u))), position)
            both = zip(before, self._keys(own, u, position))
            keys, values = (torch.cat([old[:, :position], new], dim=1) for old, new in both)
            # No mask: a row sees the whole block.
            seen = attention(q, keys, values).transpose(0, 1).flatten(1)
            x = x + own.o_proj(seen)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.parts["norm"](x)

    def _keys(self, own: Any, rows: Any, position: int) -> tuple[Any, Any]:
        """Keys and values (heads, rows, head_dim), of one head for each query."""
        keys = self._turned(own.k_norm(self._split(own.k_proj(rows))), position)
        groups = self.options.num_attention_heads // self.options.num_key_value_heads
        values = self._split(own.v_proj(rows)).transpose(0, 1)
        return keys.repeat_interleave(groups, 0), values.repeat_interleave(groups, 0)

    def _split(self, rows: Any) -> Any:
        return rows.unflatten(1, (-1, self.options.head_dim))

    def _turned(self, x: Any, position: int) -> Any:
        """Rows (n, heads, head_dim) turned by their positions, the first being `position`, as
        (heads, n, head_dim)."""
        torch = module("torch")
        qwen3 = module("transformers.models.qwen3.modeling_qwen3")

        x = x.transpose(0, 1)[None]
        positions = torch.arange(position, position + x.shape[2], device=x.device)
        cos, sin = self.parts["rotary_emb"](x, positions[None])
        return qwen3.apply_rotary_pos_emb(x, x, cos, sin)[0][0]

    def _markov(self, y: Any, before: Any) -> Any:
        """What the tokens before (n) add to the logits of the rows (n, d) of one block."""
        torch = module("torch")

        own, kind = self.parts["markov_head"], self.options.markov_head_type
        latent = own["markov_w1"](before)
        if kind == "gated":
            latent = latent * own["gate_proj"](torch.cat([y, latent], dim=-1)).sigmoid()
        elif kind == "rnn":
            state, outputs = torch.zeros_like(latent[0]), []
            for row, token in zip(y, latent):
                given = torch.cat([state, token, row])
                gate, candidate, output = own["joint_proj"](given).chunk(3)
                gate = gate.sigmoid()
                state = gate * state + (1.0 - gate) * candidate.tanh()
                outputs.append(output.tanh())
            latent = torch.stack(outputs)
        return own["markov_w2"](latent)

    def _confident(self, y: Any, before: Any, least: float) -> int:
        """How many tokens are drafted before the first with a confidence below `least`."""
        torch = module("torch")

        if least <= 0.0:
            return len(y)
        if self.options.confidence_head_with_markov:
            y = torch.cat([y, self.parts["markov_head"]["markov_w1"](before)], dim=-1)
        confident = self.parts["confidence_head"]["proj"](y)[:, 0].sigmoid() >= least
        return int(confident.int().cumprod(0).sum())


_ARCHITECTURE = "Qwen3DSparkModel"


def _parts(options: Any) -> Any:
    """The modules of a head, by the names of its tensors."""
    nn = module("torch").nn
    qwen3 = module("transformers.models.qwen3.modeling_qwen3")

    width, vocab, rank = options.hidden_size, options.vocab_size, options.markov_rank
    parts = {
        "embed_tokens": nn.Embedding(vocab, width),
        "fc": nn.Linear(len(options.target_layer_ids) * width, width, bias=False),
        "hidden_norm": qwen3.Qwen3RMSNorm(width, options.rms_norm_eps),
        "layers": nn.ModuleList(
            qwen3.Qwen3DecoderLayer(options, layer) for layer in range(options.num_hidden_layers)
        ),
        "norm": qwen3.Qwen3RMSNorm(width, options.rms_norm_eps),
        "lm_head": nn.Linear(width, vocab, bias=False),
        "rotary_emb": qwen3.Qwen3RotaryEmbedding(options),
    }
    if rank > 0:
        markov = {
            "markov_w1": nn.Embedding(vocab, rank),
            "markov_w2": nn.Linear(rank, vocab, bias=False),
        }
        if options.markov_head_type == "gated":
            markov["gate_proj"] = nn.Linear(width + rank, rank)
        elif options.markov_head_type == "rnn":
            markov["joint_proj"] = nn.Linear(2 * rank + width, 3 * rank)
        parts["markov_head"] = nn.ModuleDict(markov)
    if options.enable_confidence_head:
        given = width + (rank if options.confidence_head_with_markov else 0)
        parts["confidence_head"] = nn.ModuleDict({"proj": nn.Linear(given, 1)})
    return nn.ModuleDict(parts)
