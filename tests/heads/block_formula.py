"""Block drafters' forward passes in numpy, from scratch and in the precision of the tensors.

One pass gives the logits of all drafted positions. Its rows are the last committed token, the
anchor, and masks after it. Row j stands at position n - 1 + j after n committed tokens.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from formula import Array, Cache, Path, Shape, Tensors, linear, rms, rotate, shape_of, silu, under


@dataclass(frozen=True)
class BlockReading:
    """How a block is computed. The default is that of the file; other values are variants."""

    width: int | None = None  # rows, the anchor included
    causal: bool | None = None  # whether rows of all layers see no later row of the block
    window: str | None = None  # "row", "past", "inclusive", "anchor" or "none"
    anchor_first: bool | None = None  # whether the anchor's row gives the first drafted token
    late: bool = False  # rows of the context have the states of the token before
    shift: int = 0  # of the positions of the block
    spread: bool = True  # whether masks stand at positions of their own
    zero_mask: bool = False  # zeros for the masks' embeddings
    drafted: bool = False  # the embeddings of drafted tokens in place of masks
    context_normed: bool = False  # input_layernorm before k and v of the context
    plain_values: str = ""  # "context" or "block": values that are not scaled
    table_scale: bool = True  # whether the masks' embeddings are scaled
    # The token that biases a row, or "argmax", "anchor", "row": its row of the head's matrix.
    previous: str = "drafted"
    rnn_from: int | None = None  # the row at which the recurrent state starts
    rnn_kept: bool = True  # whether the recurrent state is carried from row to row
    plain_mask: bool = False  # the masks' features skip the norms


RIGHT = BlockReading()


class Layer(NamedTuple):
    """What rows of a layer see: a number of tokens, or all; later rows of the block, or not."""

    window: int | None
    causal: bool


class Settings(NamedTuple):
    """What tensors do not say."""

    width: int
    mask: int
    layers: list[Layer]
    window: str = "row"  # where windows begin: see `seen`
    anchor_first: bool = False
    value_scale: float = 1.0
    embedding_scale: float = 1.0
    multiplier: float = 1.0
    softcap: float | None = None
    confidence_markov: bool = False
    rnn_from: int | None = None


def sliding(config: dict[str, Any]) -> list[bool]:
    """Return for every layer whether it is one with a window."""
    types = config.get("layer_types") or ["full_attention"] * config["num_hidden_layers"]
    return [kind == "sliding_attention" for kind in types]


def zlab(config: dict[str, Any]) -> Settings:
    """Read a configuration of z-lab's layout."""
    own = config["dflash_config"]
    key = lambda name, other=None: own.get(name, config.get(name, other))
    windows = sliding(config)
    forced = own.get("use_swa", False) and not any(windows)
    window = own.get("swa_window_size", config.get("sliding_window"))
    causal = config.get("is_causal", own.get("causal"))
    layers = [
        Layer(window if forced or slides else None, slides if causal is None else causal)
        for slides in windows
    ]
    return Settings(
        width=key("block_size", 16),
        mask=key("mask_token_id"),
        layers=layers,
        value_scale=own.get("attention_value_scale") or 1.0,
        embedding_scale=key("input_embedding_scale", 1.0),
        multiplier=key("output_multiplier", 1.0),
        softcap=key("final_logit_softcapping"),
    )


def muse(config: dict[str, Any]) -> Settings:
    """Read a configuration of transformers' assistant for Muse Glimmer."""
    window = config["sliding_window"]
    layers = [Layer(window if slides else None, False) for slides in sliding(config)]
    return Settings(config["block_size"], config["mask_token_id"], layers, window="inclusive")


def deepspec(config: dict[str, Any]) -> Settings:
    """Read a configuration of DeepSpec's DSpark."""
    layers = [Layer(None, False)] * config["num_hidden_layers"]
    return Settings(
        config["block_size"],
        config["mask_token_id"],
        layers,
        anchor_first=True,
        confidence_markov=config.get("confidence_head_with_markov", False),
    )


def specforge(config: dict[str, Any]) -> Settings:
    """Read a configuration of SpecForge's DSpark: that of z-lab's DFlash with more keys."""
    markov = config["dflash_config"].get("confidence_head_with_markov", False)
    return zlab(config)._replace(anchor_first=True, confidence_markov=markov)


def speculators(config: dict[str, Any]) -> Settings:
    """Read a configuration of DFlash or DSpark in speculators' layout."""
    layer = config["transformer_layer_config"]
    causal = not config["sliding_window_non_causal"]
    windows = [slides and layer["sliding_window"] for slides in sliding(layer)]
    return Settings(
        config["block_size"],
        config["mask_token_id"],
        [Layer(window or None, bool(window) and causal) for window in windows],
        window="anchor",
        anchor_first=config["sample_from_anchor"],
        confidence_markov=config.get("confidence_head_with_markov", False),
        rnn_from=0,
    )


READERS = {
    "zlab": zlab,
    "muse": muse,
    "deepspec": deepspec,
    "specforge": specforge,
    "speculators-block": speculators,
}
RENAMED = {"encoder.fc.": "fc.", "encoder.output_norm_enc.": "hidden_norm."}


def seen(layer: Layer, window: str, anchor: int, width: int) -> Array:
    """Return which of the context and the block every row of the block sees, `[rows, keys]`.

    A window of w by row has the row's own position, w - 1 before it and as many after it, past
    ones all after it. An inclusive one has one more on each side. By anchor it is the w tokens
    before the block, for all rows.
    """
    rows = anchor + np.arange(width)[:, None]
    keys = np.arange(anchor + width)[None]
    inside = keys >= anchor
    found = np.ones((width, anchor + width), bool)
    if layer.window and window != "none":
        if window == "anchor":
            found &= inside | (keys >= anchor - layer.window)
        else:
            reach = layer.window - (window != "inclusive")
            found &= (keys >= rows - reach) & ((keys <= rows + reach) | (window == "past"))
    return found & (keys <= rows) if layer.causal else found


def mixed(shape: Shape, q: Array, k: Array, v: Array, allowed: Array, sink: Array | None) -> Array:
    """Return the attention's output before its projection, `[rows, heads * head_dim]`."""
    group = shape.heads // shape.kv_heads
    scores = np.einsum("qhd,khd->hqk", q, k.repeat(group, 1)) / np.sqrt(shape.head_dim)
    scores = np.where(allowed[None], scores, -np.inf).astype(q.dtype)
    if sink is not None:  # one more score for every head, without a value
        last = np.broadcast_to(sink[:, None, None], (*scores.shape[:2], 1)).astype(q.dtype)
        scores = np.concatenate([scores, last], -1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    weights = weights[..., : len(k)]
    return np.einsum("hqk,khd->qhd", weights, v.repeat(group, 1)).reshape(len(q), -1)


class BlockHead:
    """DFlash and DSpark: rows of a block over states of the context."""

    def __init__(
        self, layout: str, tensors: Tensors, config: dict[str, Any], embed: Array, head: Array
    ):
        for old, new in RENAMED.items():
            tensors = {name.replace(old, new): x for name, x in tensors.items()}
        self.w, self.config, self.settings = tensors, config, READERS[layout](config)
        self.embed = tensors.get("embed_tokens.weight", embed)
        self.head = tensors.get("lm_head.weight", head)
        self.ids = np.arange(len(self.head)) + tensors.get("d2t", 0)
        self.shape = shape_of(config.get("transformer_layer_config", config))
        self.layers = [under(self.w, f"layers.{i}.") for i in range(len(self.settings.layers))]
        self.mask = tensors.get("mask_embedding", self.embed[self.settings.mask])

    def key_value(
        self, w: Tensors, u: Array, positions: Array, scaled: bool = True
    ) -> tuple[Array, Array]:
        """Return keys and values of rows."""
        k, v = (
            linear(w, f"self_attn.{x}_proj", u).reshape(len(u), -1, self.shape.head_dim)
            for x in ("k", "v")
        )
        if "self_attn.k_norm.weight" in w:
            k = rms(k, w["self_attn.k_norm.weight"], self.shape.eps)
        v = v * v.dtype.type(self.settings.value_scale) if scaled else v
        return rotate(k, positions, self.shape.theta), v

    def embeddings(self, context: list[int], width: int, reading: BlockReading) -> Array:
        """Return the inputs of the block's rows."""
        mask = self.mask * (not reading.zero_mask)
        x = np.stack([self.embed[context[-1]], *[mask] * (width - 1)])
        return x * x.dtype.type(self.settings.embedding_scale if reading.table_scale else 1.0)

    def block(
        self,
        context: list[int],
        states: Array,
        reading: BlockReading = RIGHT,
        stale: list[Cache] | None = None,
    ) -> tuple[Array, list[Cache]]:
        """Return the states of a block after the last norm, and its keys and values."""
        shape, width = self.shape, reading.width or self.settings.width
        states = np.concatenate([states[:1], states[:-1]]) if reading.late else states
        c = linear(self.w, "fc", states)
        if "hidden_norm.weight" in self.w:
            c = rms(c, self.w["hidden_norm.weight"], shape.eps)
        anchor = len(c)
        steps = np.arange(width) * reading.spread
        before, here = np.arange(anchor), anchor + steps + reading.shift
        x, own = self.embeddings(context, width, reading), []
        for i, (w, layer) in enumerate(zip(self.layers, self.settings.layers, strict=True)):
            layer = layer if reading.causal is None else layer._replace(causal=reading.causal)
            allowed = seen(layer, reading.window or self.settings.window, anchor, width)
            norm = w["input_layernorm.weight"]
            given = rms(c, norm, shape.eps) if reading.context_normed else c
            k, v = self.key_value(w, given, before, reading.plain_values != "context")
            if stale is not None:
                k[-len(stale[i].keys) :], v[-len(stale[i].keys) :] = stale[i]
            u = rms(x, norm, shape.eps)
            own.append(Cache(*self.key_value(w, u, here, reading.plain_values != "block")))
            q = linear(w, "self_attn.q_proj", u).reshape(width, shape.heads, shape.head_dim)
            if "self_attn.q_norm.weight" in w:
                q = rms(q, w["self_attn.q_norm.weight"], shape.eps)
            q = rotate(q, here, shape.theta)
            k, v = np.concatenate([k, own[i].keys]), np.concatenate([v, own[i].values])
            sink = w.get("self_attn.attention_sink_bias")
            x = x + linear(w, "self_attn.o_proj", mixed(shape, q, k, v, allowed, sink))
            m = rms(x, w["post_attention_layernorm.weight"], shape.eps)
            gated = silu(linear(w, "mlp.gate_proj", m)) * linear(w, "mlp.up_proj", m)
            x = x + linear(w, "mlp.down_proj", gated)
        return rms(x, self.w["norm.weight"], shape.eps), own

    def own_states(self, context: list[int], states: Array, path: Path) -> list[Cache]:
        """Return keys and values of the block's rows that stand where accepted tokens will."""
        _, own = self.block(context, states)
        count = len(path) + 1
        return [Cache(cache.keys[:count], cache.values[:count]) for cache in own]

    def first(self, reading: BlockReading) -> int:
        """Return the row that gives the first drafted token."""
        given = reading.anchor_first
        return 0 if (self.settings.anchor_first if given is None else given) else 1

    def depths(self, reading: BlockReading = RIGHT) -> int:
        """Return how many tokens a block drafts."""
        return (reading.width or self.settings.width) - self.first(reading)

    def plain(self, y: Array) -> Array:
        """Return the logits of states before any bias."""
        z = y @ self.head.T * y.dtype.type(self.settings.multiplier)
        cap = self.settings.softcap
        return np.tanh(z / z.dtype.type(cap)) * z.dtype.type(cap) if cap else z

    def rows(
        self,
        context: list[int],
        states: Array,
        paths: list[Path],
        reading: BlockReading = RIGHT,
        stale: list[Cache] | None = None,
    ) -> dict[Path, Array]:
        """Return the logits after every path that the block reaches."""
        y, _ = self.block(context, states, reading, stale)
        first, z = self.first(reading), self.plain(y)
        result = {}
        for path in paths:
            row = first + len(path)
            if row < len(y):
                result[path] = z[row] + self.bias(context, path, y, z, reading)
        return result

    def confidence(
        self,
        context: list[int],
        states: Array,
        paths: list[Path],
        reading: BlockReading = RIGHT,
        own: bool = False,
    ) -> dict[Path, float]:
        """Return the confidence of the token after every path.

        A wrong reading is that of the token that it judges, the best one, with `own`.
        """
        y, _ = self.block(context, states, reading)
        first, z, result = self.first(reading), self.plain(y), {}
        for path in paths:
            row = first + len(path)
            seen = y[row]
            if self.settings.confidence_markov:
                after = z[row] + self.bias(context, path, y, z, reading)
                best = int(self.ids[after.argmax()])
                token = best if own else self.previous(context, path, y, z, reading)[-1]
                seen = np.concatenate([seen, self.w["markov_head.markov_w1.weight"][token]])
            logit = linear(self.w, "confidence_head.proj", seen)
            result[path] = float(1 / (1 + np.exp(-logit[0])))
        return result

    def previous(
        self, context: list[int], path: Path, y: Array, z: Array, reading: BlockReading
    ) -> list[int]:
        """Return the token before each drafted position up to the one after the path."""
        if reading.previous == "anchor":
            return [context[-1]] * (len(path) + 1)
        tokens = [context[-1]]
        for i in range(len(path)):
            logits = z[self.first(reading) + i] + self.bias(context, path[:i], y, z, reading)
            best = int(self.ids[logits.argmax()])
            token = best if reading.previous == "argmax" else path[i]
            row = np.searchsorted(self.ids, token) if reading.previous == "row" else token
            tokens.append(int(row))
        return tokens

    def bias(
        self, context: list[int], path: Path, y: Array, z: Array, reading: BlockReading
    ) -> Array:
        """Return what the Markov head adds to the logits after a path."""
        w = under(self.w, "markov_head.")
        if "markov_w2.weight" not in w:
            return np.zeros(len(self.head), y.dtype)
        first = self.first(reading)
        tokens = self.previous(context, path, y, z, reading)
        e = w["markov_w1.weight"][tokens]
        latent = e[-1]
        if "gate_proj.weight" in w:
            gate = linear(w, "gate_proj", np.concatenate([y[first + len(path)], e[-1]]))
            latent = e[-1] / (1 + np.exp(-gate))
        if "joint_proj.weight" in w:
            start = self.settings.rnn_from if reading.rnn_from is None else reading.rnn_from
            e = np.concatenate([e[:1], e]) if start == 0 and first == 1 else e
            latent = self.recurrent(w, e, y[first + len(path) + 1 - len(e) :], reading)
        return w["markov_w2.weight"] @ latent

    def recurrent(self, w: Tensors, e: Array, y: Array, reading: BlockReading) -> Array:
        """Return the output of the recurrent head for the last of these tokens."""
        state = np.zeros_like(e[0])
        for token, row in zip(e, y):
            z = linear(w, "joint_proj", np.concatenate([state, token, row]))
            gate, candidate, output = np.split(z, 3)
            gate = 1 / (1 + np.exp(-gate))
            new = gate * state + (1 - gate) * np.tanh(candidate)
            state = new if reading.rnn_kept else state
        return np.tanh(output)
