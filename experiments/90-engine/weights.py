"""Writes checkpoints with random weights, so that every engine runs the same model.

A model is written as a Hugging Face folder in f32; `ggufs.py` converts it. Only one tensor
at a time is in memory.
"""

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ggufs import WEIGHTS

SEED = 90
VOCAB = 32_000
# More than the longest context, with the tokens of a pass after it.
POSITIONS = 8704
NORM_EPS = 1e-5
ROPE_THETA = 10_000.0
DTYPES = ("f32", "bf16", "q8_0")
# Bytes per weight; a q8_0 block has 32 one-byte weights and a two-byte scale.
BYTES = {"f32": 4.0, "bf16": 2.0, "q8_0": 34 / 32}


@dataclass(frozen=True)
class Shape:
    """The sizes of a Llama model."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    tied: bool

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The Hugging Face names and shapes of all tensors."""
        hidden, inner = self.hidden, self.intermediate
        kv_width = hidden // self.heads * self.kv_heads
        yield "model.embed_tokens.weight", (VOCAB, hidden)
        for layer in range(self.layers):
            prefix = f"model.layers.{layer}."
            yield prefix + "input_layernorm.weight", (hidden,)
            yield prefix + "self_attn.q_proj.weight", (hidden, hidden)
            yield prefix + "self_attn.k_proj.weight", (kv_width, hidden)
            yield prefix + "self_attn.v_proj.weight", (kv_width, hidden)
            yield prefix + "self_attn.o_proj.weight", (hidden, hidden)
            yield prefix + "post_attention_layernorm.weight", (hidden,)
            yield prefix + "mlp.gate_proj.weight", (inner, hidden)
            yield prefix + "mlp.up_proj.weight", (inner, hidden)
            yield prefix + "mlp.down_proj.weight", (hidden, inner)
        yield "model.norm.weight", (hidden,)
        if not self.tied:
            yield "lm_head.weight", (VOCAB, hidden)

    def bytes_per_token(self, dtype: str) -> int:
        """Bytes of the matrices that one pass multiplies by: all layers and the head.

        A tied embedding counts once, as the head; as an embedding, a pass reads only a few rows.
        """
        matrices = (shape for _, shape in self.tensors() if len(shape) == 2)
        weights = sum(rows * columns for rows, columns in matrices)
        if not self.tied:
            weights -= VOCAB * self.hidden
        return round(weights * BYTES[dtype])


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("15m", 288, 6, 6, 6, 768, tied=True),
        Shape("110m", 768, 12, 12, 12, 2048, tied=True),
        Shape("1.1b", 2048, 22, 32, 4, 5632, tied=False),
    )
}


def folder(shape: Shape, work: Path) -> Path:
    """The Hugging Face folder of a shape; written if it does not exist."""
    place = work / shape.name
    done = place / WEIGHTS
    place.mkdir(parents=True, exist_ok=True)
    # Folders of earlier versions may allow fewer positions.
    (place / "config.json").write_text(json.dumps(_config(shape), indent=1) + "\n")
    if not done.exists():
        (place / "tokenizer.json").write_text(json.dumps(_tokenizer()) + "\n")
        part = done.with_suffix(".part")
        _write_safetensors(shape, part)
        part.rename(done)
    return place


def _config(shape: Shape) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "vocab_size": VOCAB,
        "max_position_embeddings": POSITIONS,
        "rms_norm_eps": NORM_EPS,
        "rope_theta": ROPE_THETA,
        "tie_word_embeddings": shape.tied,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "float32",
    }


def _tokenizer() -> dict[str, object]:
    """A tokenizer with one word per token. It is never used: engines are given tokens."""
    vocab = {f"t{token}": token for token in range(VOCAB)}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "t0"},
    }


def _random(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Ones for norms, normal(0, 0.02) for matrices. The values depend only on the name."""
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    return rng.standard_normal(shape, np.float32) * np.float32(0.02)


def _write_safetensors(shape: Shape, file: Path) -> None:
    """Writes the file format directly, since the library needs all tensors in memory."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, dims in shape.tensors():
        begin, end = end, end + 4 * int(np.prod(dims))
        header[name] = {"dtype": "F32", "shape": dims, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for name, dims in shape.tensors():
            _random(name, dims).tofile(out)
