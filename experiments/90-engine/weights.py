"""Writes checkpoints with random weights, so that every engine runs the same model.

A model is written as a Hugging Face folder in f32, and converted from there to GGUF files
in f32, bf16 and q8_0. Only one tensor at a time is in memory.
"""

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from safetensors import safe_open

SEED = 90
VOCAB = 32_000
POSITIONS = 2048
NORM_EPS = 1e-5
ROPE_THETA = 10_000.0
DTYPES = ("f32", "bf16", "q8_0")
# Bytes per weight; a q8_0 block has 32 one-byte weights and a two-byte scale.
BYTES = {"f32": 4.0, "bf16": 2.0, "q8_0": 34 / 32}
GGUF_TYPES = {
    "f32": (gguf.GGMLQuantizationType.F32, gguf.LlamaFileType.ALL_F32),
    "bf16": (gguf.GGMLQuantizationType.BF16, gguf.LlamaFileType.MOSTLY_BF16),
    "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
}
GGUF_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
GGUF_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


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
    done = place / "model.safetensors"
    if not done.exists():
        place.mkdir(parents=True, exist_ok=True)
        (place / "config.json").write_text(json.dumps(_config(shape), indent=1) + "\n")
        (place / "tokenizer.json").write_text(json.dumps(_tokenizer()) + "\n")
        part = done.with_suffix(".part")
        _write_safetensors(shape, part)
        part.rename(done)
    return place


def gguf_file(shape: Shape, dtype: str, work: Path) -> Path:
    """The GGUF file of a shape; converted from the Hugging Face folder if it does not exist."""
    done = work / f"{shape.name}-{dtype}.gguf"
    if not done.exists():
        part = done.with_suffix(".part")
        _write_gguf(shape, dtype, folder(shape, work) / "model.safetensors", part)
        part.rename(done)
    return done


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


def _write_gguf(shape: Shape, dtype: str, weights: Path, file: Path) -> None:
    kind, file_type = GGUF_TYPES[dtype]
    head_dim = shape.hidden // shape.heads
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_name(shape.name)
    writer.add_file_type(file_type)
    writer.add_vocab_size(VOCAB)
    writer.add_tokenizer_model("no_vocab")
    writer.add_context_length(POSITIONS)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.intermediate)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(ROPE_THETA)
    writer.add_layer_norm_rms_eps(NORM_EPS)

    def kind_of(dims: tuple[int, ...]) -> gguf.GGMLQuantizationType:
        return kind if len(dims) == 2 else gguf.GGMLQuantizationType.F32

    for name, dims in shape.tensors():
        stored = kind_of(dims)
        dense = stored == gguf.GGMLQuantizationType.F32
        size = gguf.quants.quant_shape_to_byte_shape(dims, stored)
        writer.add_tensor_info(
            _gguf_name(name),
            dims if dense else size,
            np.dtype(np.float32 if dense else np.uint8),
            4 * int(np.prod(dims)) if dense else int(np.prod(size)),
            raw_dtype=None if dense else stored,
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    with safe_open(weights, framework="numpy") as tensors:
        for name, dims in shape.tensors():
            tensor = tensors.get_tensor(name)
            if name.endswith("q_proj.weight"):
                tensor = _permuted(tensor, shape.heads)
            elif name.endswith("k_proj.weight"):
                tensor = _permuted(tensor, shape.kv_heads)
            writer.write_tensor_data(gguf.quants.quantize(tensor, kind_of(dims)))
    writer.close()


def _gguf_name(name: str) -> str:
    if name in GGUF_NAMES:
        return GGUF_NAMES[name]
    layer, rest = name.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{GGUF_LAYER_NAMES[rest.removesuffix('.weight')]}.weight"


def _permuted(matrix: np.ndarray, heads: int) -> np.ndarray:
    """Permutes the rows of a query or key projection into the order of llama.cpp.

    Hugging Face rotates the entries i and i + d/2 of a head together, llama.cpp the entries
    2i and 2i + 1.
    """
    rows, columns = matrix.shape
    halves = matrix.reshape(heads, 2, rows // heads // 2, columns)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows, columns)
