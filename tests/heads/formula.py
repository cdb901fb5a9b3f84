"""The heads' forward passes in numpy, from scratch and in the precision of the tensors.

A row is a pair of a token and the state that comes with it: at position t, the token
x_{t+1} and the target's state of x_t, or the head's own state of the row before. Classes
read the tensors of a folder under their published names.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray
Tensors = dict[str, Array]
Path = tuple[int, ...]


@dataclass(frozen=True)
class Reading:
    """How rows are fed. The default is that of the file; every other value is a variant."""

    feedback: str | None = None  # "pre" or "post" the last norm; "held": the last feature
    shift: int = 0  # of the positions of all rows
    drafted_shift: int = 0  # of the positions of drafted rows alone
    first_row_zero: bool = False  # the first row has zeros for its embedding
    extra_first_row: bool = False  # a row (x_0, zeros) at position 0; a head with one loses it
    swapped: bool = False  # the two halves of a concatenation
    late: bool = False  # every row has the state of the token before
    early: bool = False  # every row has the state of its own token; with a first row only
    first_layer: bool = False  # the first of several MTP layers for every position


RIGHT = Reading()


class Shape(NamedTuple):
    """What the tensors of a decoder layer do not say."""

    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    theta: float


class Cache(NamedTuple):
    """Keys and values of one layer, `[rows, kv_heads, head_dim]` each."""

    keys: Array
    values: Array


class Row(NamedTuple):
    """What rows give: logits, states to feed back, and the caches of all layers."""

    logits: Array
    back: Array
    caches: list[Cache | None]


def shape_of(config: dict[str, Any]) -> Shape:
    """Return the shape that the keys of a decoder's configuration describe."""
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    rope = config.get("rope_parameters") or config
    theta = rope.get("rope_theta", 10000.0)
    return Shape(heads, config["num_key_value_heads"], head_dim, config["rms_norm_eps"], theta)


def under(tensors: Tensors, prefix: str) -> Tensors:
    """Return the tensors whose names begin with a prefix, without it."""
    return {k.removeprefix(prefix): x for k, x in tensors.items() if k.startswith(prefix)}


def rms(x: Array, weight: Array, eps: float) -> Array:
    """Normalise the last axis."""
    return weight * x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def silu(x: Array) -> Array:
    """Return x · sigmoid(x)."""
    return x / (1 + np.exp(-x))


def linear(tensors: Tensors, name: str, x: Array) -> Array:
    """Multiply by a weight and add its bias, if it has one."""
    return x @ tensors[f"{name}.weight"].T + tensors.get(f"{name}.bias", 0.0)


def rotate(x: Array, positions: Array, theta: float) -> Array:
    """Rotate `[rows, heads, head_dim]`: entry i of the first half goes with i of the second.

    A frequency is rounded to f32, and so is its product with the position.
    """
    half = x.shape[-1] // 2
    frequencies = (theta ** (-np.arange(half) / half)).astype(np.float32)
    angles = (positions.astype(np.float32)[:, None] * frequencies).astype(np.float64)
    cos, sin = (f(angles)[:, None].astype(x.dtype) for f in (np.cos, np.sin))
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def decoder_layer(
    w: Tensors, shape: Shape, x: Array, positions: Array, past: Cache | None, u: Array | None = None
) -> tuple[Array, Cache]:
    """Return the output and the cache of a layer; `u` replaces the input of its attention."""
    rows, d = len(x), shape.head_dim
    if u is None:
        norm = w.get("input_layernorm.weight")
        u = x if norm is None else rms(x, norm, shape.eps)
    q = linear(w, "self_attn.q_proj", u).reshape(rows, shape.heads, d)
    k = linear(w, "self_attn.k_proj", u).reshape(rows, shape.kv_heads, d)
    v = linear(w, "self_attn.v_proj", u).reshape(rows, shape.kv_heads, d)
    if "self_attn.q_norm.weight" in w:
        q = rms(q, w["self_attn.q_norm.weight"], shape.eps)
        k = rms(k, w["self_attn.k_norm.weight"], shape.eps)
    q, k = rotate(q, positions, shape.theta), rotate(k, positions, shape.theta)
    if past is not None:
        k, v = np.concatenate([past.keys, k]), np.concatenate([past.values, v])
    group = shape.heads // shape.kv_heads
    scores = np.einsum("qhd,khd->hqk", q, k.repeat(group, 1)) / np.sqrt(d)
    scores[:, np.arange(len(k)) > np.arange(len(k) - rows, len(k))[:, None]] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    mixed = np.einsum("hqk,khd->qhd", weights, v.repeat(group, 1)).reshape(rows, -1)
    x = x + linear(w, "self_attn.o_proj", mixed)
    m = rms(x, w["post_attention_layernorm.weight"], shape.eps)
    gated = silu(linear(w, "mlp.gate_proj", m)) * linear(w, "mlp.up_proj", m)
    return x + linear(w, "mlp.down_proj", gated), Cache(k, v)


class Head:
    """A head whose drafted rows get its own states.

    Subclasses have `fuse` (the target's states of verified tokens to the rows' states) and
    `row` (embeddings, states, positions and caches of rows to logits, states and caches).
    """

    post = False  # whether the state after the last norm is fed back
    first_row = False  # whether x_0 has a row, with zeros for its state

    def __init__(self, tensors: Tensors, config: dict[str, Any], embed: Array, head: Array):
        self.w, self.config = tensors, config
        self.embed = tensors.get("embed_tokens.weight", embed)
        self.head = tensors.get("lm_head.weight", head)
        self.ids = np.arange(len(self.head)) + tensors.get("d2t", 0)
        self.shape = shape_of(config.get("transformer_layer_config", config))

    def fuse(self, states: Array) -> Array:
        """Return the states that go into the rows of verified tokens."""
        return states

    def row(
        self, e: Array, h: Array, positions: Array, caches: list[Cache | None], reading: Reading
    ) -> tuple[Array, Array, list[Cache | None]]:
        """Return logits, states to feed back and caches."""
        raise NotImplementedError

    def normed(self, x: Array) -> Array:
        """Apply the last norm."""
        return rms(x, self.w["norm.weight"], self.shape.eps)

    def normed_taps(self, states: Array) -> Array:
        """Apply the norm of every tap to its part of the states."""
        parts = np.split(states, len(under(self.w, "fc_norm.")), -1)
        norms = [self.w[f"fc_norm.{i}.weight"] for i in range(len(parts))]
        parts = [rms(x, w, self.shape.eps) for x, w in zip(parts, norms, strict=True)]
        return np.concatenate(parts, -1)

    def back(self, before: Array, after: Array, reading: Reading) -> Array:
        """Choose between the states before and after the last norm."""
        feedback = reading.feedback or ("post" if self.post else "pre")
        return after if feedback == "post" else before

    def halves(self, e: Array, h: Array, reading: Reading) -> Array:
        """Concatenate embeddings and states, in this order."""
        return np.concatenate([h, e] if reading.swapped else [e, h], -1)

    def rows(
        self,
        context: list[int],
        states: Array,
        paths: list[Path],
        reading: Reading = RIGHT,
        stale: Array | None = None,
    ) -> dict[Path, Array]:
        """Return the logits after every path; `states` are those of context[:-1].

        `stale` are the head's own states of the rows before the last one, if these are kept.
        """
        return {
            path: row.logits[-1]
            for path, row in self.known(context, states, paths, reading, stale).items()
            if path in paths
        }

    def own_states(self, context: list[int], states: Array, path: Path) -> Array:
        """Return the states with which the drafted rows of a path are fed."""
        paths = [path[:i] for i in range(len(path))]
        known = self.known(context, states, paths, RIGHT, None)
        return np.concatenate([known[path].back[-1:] for path in paths])

    def known(self, context, states, paths, reading, stale) -> dict[Path, "Row"]:
        """Return what the rows after every path give."""
        h = self.fuse(states)
        if stale is not None:
            h[-1 - len(stale) : -1] = stale
        h = np.concatenate([h[:1], h[:-1]]) if reading.late else h
        e, positions = self.embed[context[1:]], np.arange(len(h))
        if reading.first_row_zero:
            e[0] = 0
        if reading.extra_first_row != self.first_row:
            e = np.concatenate([self.embed[context[:1]], e])
            none = np.zeros_like(h[:1])
            h = np.concatenate([h, none] if reading.early else [none, h])
            positions = np.arange(len(h))
        positions = positions + reading.shift
        known = {(): Row(*self.row(e, h, positions, [], reading))}
        first = positions[-1] + reading.drafted_shift
        for path in sorted(paths, key=len):
            if path:
                parent = known[path[:-1]]
                e, position = self.embed[[path[-1]]], np.array([first + len(path)])
                row = self.row(e, parent.back[-1:], position, parent.caches, reading)
                known[path] = Row(*row)
        return known


def through(
    layers: list[Tensors],
    shape: Shape,
    x: Array,
    positions: Array,
    caches: list[Cache | None],
    u: Array | None = None,
) -> tuple[Array, list[Cache | None]]:
    """Run layers, the first with its own input `u` if there is one."""
    new = []
    for w, past in zip(layers, caches or [None] * len(layers), strict=True):
        x, cache = decoder_layer(w, shape, x, positions, past, u)
        new.append(cache)
        u = None
    return x, new


class Eagle3(Head):
    """EAGLE-3 and 3.1."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        prefixes = ["midlayer."] + [f"layers.{i}." for i in range(8)]
        self.layers = [under(self.w, p) for p in prefixes if under(self.w, p)]
        # SpecForge means something else by this key, and feeds back the state before the norm.
        specforge = self.config.get("architectures") == ["LlamaForCausalLMEagle3"]
        self.post = bool(self.config.get("norm_output")) and not specforge

    def fuse(self, states: Array) -> Array:
        """Multiply the concatenated states of the taps by `fc`, after the norms if any."""
        if self.config.get("norm_before_fc"):
            states = rms(states, self.w["input_norm.weight"], self.shape.eps)
        if self.config.get("fc_norm"):
            states = self.normed_taps(states)
        return linear(self.w, "fc", states)

    def row(self, e, h, positions, caches, reading):
        """Give the first layer's attention both halves, normalised, and its residual one."""
        first = self.layers[0]
        normed = rms(h, first["hidden_norm.weight"], self.shape.eps)
        u = self.halves(rms(e, first["input_layernorm.weight"], self.shape.eps), normed, reading)
        residual = normed if self.config.get("norm_before_residual") else h
        y, caches = through(self.layers, self.shape, residual, positions, caches, u)
        after = self.normed(y)
        return after @ self.head.T, self.back(y, after, reading), caches


class Eagle1(Head):
    """EAGLE-1 and 2: the target's head, no norm at the end, none before the first layer."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        count = self.config["num_hidden_layers"]
        self.layers = [under(self.w, f"layers.{i}.") for i in range(count)]

    def row(self, e, h, positions, caches, reading):
        """Project both halves to the width of the layers."""
        x = linear(self.w, "fc", self.halves(e, h, reading))
        y, caches = through(self.layers, self.shape, x, positions, caches)
        return y @ self.head.T, y, caches


class TapDraft(Head):
    """A draft model with a tied embedding, to which rows of verified tokens add fused taps."""

    first_row = True

    def __init__(self, tensors: Tensors, config: dict[str, Any], *_: Array):
        tensors = {name.removeprefix("model."): x for name, x in tensors.items()}
        table = tensors["embed_tokens.weight"]
        super().__init__(tensors, config, table, table)
        count = config["num_hidden_layers"]
        self.layers = [under(self.w, f"layers.{i}.") for i in range(count)]

    def fuse(self, states: Array) -> Array:
        """Multiply the normalised states of the taps by `fc`; a wrong reading has no norms."""
        normed = "fc_norm.0.weight" in self.w
        return linear(self.w, "fc", self.normed_taps(states) if normed else states)

    def row(self, e, h, positions, caches, reading):
        """Add both. Drafted rows have the embedding alone, so zeros are fed back."""
        y, caches = through(self.layers, self.shape, e + h, positions, caches)
        after = self.normed(y)
        back = {None: np.zeros_like(h), "held": h, "pre": y}[reading.feedback]
        return after @ self.head.T, back, caches


# By layout: the prefix of a layer's tensors and of those around it, and the names of the
# norms of the embedding and of the state, the projection and the last norm.
MTP_NAMES = {
    "deepseek": ("model.layers.{n}.", "enorm", "hnorm", "eh_proj", "shared_head.norm"),
    "qwen": ("mtp.", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm"),
    "mimo": (
        "model.mtp_layers.{i}.",
        "token_layernorm",
        "hidden_layernorm",
        "input_proj",
        "final_layernorm",
    ),
    "speculators": (
        "mtp_layers.{i}.",
        "token_layernorm",
        "hidden_layernorm",
        "input_proj",
        "final_layernorm",
    ),
}


class Mtp(Head):
    """Layers of multi-token prediction: one for all drafted positions, or one for each."""

    post = True

    def __init__(self, layout: str, *args: Any):
        super().__init__(*args)
        prefix, *self.names = MTP_NAMES[layout]
        first, count = self.config.get("num_hidden_layers", 0), self.count()
        self.prefixes = tuple(prefix.format(i=i, n=first + i) for i in range(count))
        self.parts = [under(self.w, prefix) for prefix in self.prefixes]
        self.hidden_first = layout == "mimo"

    def count(self) -> int:
        """Return the number of layers."""
        return self.config.get("num_nextn_predict_layers", 1)

    def row(self, e, h, positions, caches, reading, part: int = 0):
        """Normalise and project both halves, then run an ordinary layer and the last norm."""
        enorm, hnorm, proj, last = self.names
        w, eps = self.parts[part], self.shape.eps
        swapped = reading.swapped != self.hidden_first
        e, h = rms(e, w[f"{enorm}.weight"], eps), rms(h, w[f"{hnorm}.weight"], eps)
        x = linear(w, proj, self.halves(e, h, replace(reading, swapped=swapped)))
        layer = under(w, "layers.0.") or w
        y, caches = through([layer], self.shape, x, positions, caches)
        after = rms(y, w[f"{last}.weight"], eps)
        return after @ self.head.T, self.back(y, after, reading), caches

    def rows(self, context, states, paths, reading=RIGHT, stale=None):
        """Draft position k with layer k if there are several."""
        if len(self.parts) == 1 or reading.first_layer:
            return super().rows(context, states, paths, reading, stale)
        result = {}
        for path in paths:
            text = context + list(path)
            h = np.concatenate([states[:1], states[:-1]]) if reading.late else states
            for k in range(len(path) + 1):
                # Layer k has rows of the same states as layer 0, each with a token k further.
                e, positions = self.embed[text[1 + k : len(context) + k]], np.arange(len(h)) + k
                logits, h, _ = self.row(e, h, positions, [], reading, k)
            result[path] = logits[-1]
        return result


class Medusa(Head):
    """Heads that see the target's last state only."""

    def __init__(self, tensors: Tensors, config: dict[str, Any], embed: Array, head: Array):
        self.w, self.config, self.head = tensors, config, head
        self.ids = np.arange(len(head))

    def rows(self, context, states, paths, reading=RIGHT, stale=None):
        """Take head k for drafted position k, regardless of the path."""
        result, blocks = {}, self.config["medusa_num_layers"]
        for path in paths:
            x = states[-2 if reading.late else -1]
            for block in range(blocks):
                x = x + silu(linear(self.w, f"{len(path)}.{block}.linear", x))
            own = self.w.get(f"{len(path)}.{blocks}.weight", self.head)
            result[path] = own @ x
        return result
