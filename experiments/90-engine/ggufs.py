"""Converts Hugging Face folders of Llama models to GGUF files, one tensor at a time."""

import json
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np

# The file of a Hugging Face folder that holds the tensors.
WEIGHTS = "model.safetensors"
# The dtypes that are written here; llama.cpp's own quantiser makes the others from f32.
TYPES = {
    "f32": (gguf.GGMLQuantizationType.F32, gguf.LlamaFileType.ALL_F32),
    "bf16": (gguf.GGMLQuantizationType.BF16, gguf.LlamaFileType.MOSTLY_BF16),
    "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
}
QUANTISED = {
    "q4_0": gguf.LlamaFileType.MOSTLY_Q4_0,
    "q4_k_m": gguf.LlamaFileType.MOSTLY_Q4_K_M,
}
LAYER_NAMES = {
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
NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
# The regular expression with which the embedded pair's tokenizer splits text, and the name by
# which llama.cpp knows the same expression: that of Qwen 2 without English contractions.
SPLIT = (
    r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "ufakzeka",
)


class Tensors:
    """The tensors of a safetensors file, in the order of their data."""

    def __init__(self, file: Path) -> None:
        with file.open("rb") as content:
            length = int.from_bytes(content.read(8), "little")
            header = json.loads(content.read(length))
        header.pop("__metadata__", None)
        self._places = dict(sorted(header.items(), key=lambda item: item[1]["data_offsets"]))
        self._bytes = np.memmap(file, np.uint8, "r", offset=8 + length)

    def __iter__(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        for name, place in self._places.items():
            yield name, tuple(place["shape"])

    def load(self, name: str) -> np.ndarray:
        """A tensor in f32."""
        place = self._places[name]
        data = self._bytes[slice(*place["data_offsets"])]
        if place["dtype"] == "BF16":
            # A bf16 number is the upper half of the same number in f32.
            values = (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        elif place["dtype"] == "F32":
            values = data.view(np.float32)
        else:
            raise ValueError(f"{name} is stored as {place['dtype']}: allowed are F32 and BF16")
        return values.reshape(place["shape"])


def gguf_file(folder: Path, dtype: str, work: Path) -> Path:
    """The GGUF file of a Hugging Face folder; written if it is missing or older."""
    done = work / f"{folder.name}-{dtype}.gguf"
    if not done.exists() or done.stat().st_mtime < (folder / WEIGHTS).stat().st_mtime:
        part = done.with_suffix(".part")
        if dtype in QUANTISED:
            from quantiser import quantise  # needs llama.cpp, the other dtypes do not

            quantise(gguf_file(folder, "f32", work), QUANTISED[dtype], part)
        else:
            _convert(folder, dtype, part)
        part.rename(done)
    return done


def _convert(folder: Path, dtype: str, file: Path) -> None:
    """Writes the model of a Hugging Face folder with its matrices in f32, bf16 or q8_0."""
    kind, file_type = TYPES[dtype]
    config = json.loads((folder / "config.json").read_text())
    tensors = Tensors(folder / WEIGHTS)
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_name(folder.name)
    writer.add_file_type(file_type)
    _add_shape(writer, config)
    _add_tokenizer(writer, json.loads((folder / "tokenizer.json").read_text()), config)

    def kind_of(dims: tuple[int, ...]) -> gguf.GGMLQuantizationType:
        return kind if len(dims) == 2 else gguf.GGMLQuantizationType.F32

    for name, dims in tensors:
        stored = kind_of(dims)
        dense = stored == gguf.GGMLQuantizationType.F32
        size = gguf.quants.quant_shape_to_byte_shape(dims, stored)
        writer.add_tensor_info(
            gguf_name(name),
            dims if dense else size,
            np.dtype(np.float32 if dense else np.uint8),
            4 * int(np.prod(dims)) if dense else int(np.prod(size)),
            raw_dtype=None if dense else stored,
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for name, dims in tensors:
        tensor = tensors.load(name)
        if name.endswith("q_proj.weight"):
            tensor = _permuted(tensor, config["num_attention_heads"])
        elif name.endswith("k_proj.weight"):
            tensor = _permuted(tensor, config["num_key_value_heads"])
        writer.write_tensor_data(gguf.quants.quantize(tensor, kind_of(dims)))
    writer.close()


def types(file: Path) -> dict[str, int]:
    """The number of matrices of a file by the type in which they are stored."""
    counts: dict[str, int] = {}
    for tensor in gguf.GGUFReader(file).tensors:
        if len(tensor.shape) == 2:
            name = tensor.tensor_type.name
            counts[name] = counts.get(name, 0) + 1
    return counts


def gguf_name(name: str) -> str:
    """The name of a tensor in GGUF files."""
    if name in NAMES:
        return NAMES[name]
    layer, rest = name.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{LAYER_NAMES[rest.removesuffix('.weight')]}.weight"


def _add_shape(writer: gguf.GGUFWriter, config: dict) -> None:
    heads = config["num_attention_heads"]
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config.get("head_dim", config["hidden_size"] // heads))
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])


def _add_tokenizer(writer: gguf.GGUFWriter, tokenizer: dict, config: dict) -> None:
    """Adds a byte-level BPE; a model with any other tokenizer gets none."""
    model = tokenizer["model"]
    if model["type"] != "BPE":
        writer.add_tokenizer_model("no_vocab")
        return
    expression, name = SPLIT
    if tokenizer["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] != expression:
        raise ValueError("the tokenizer splits text by an expression that llama.cpp does not have")
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    special = {token["id"] for token in tokenizer["added_tokens"] if token["special"]}
    kinds = gguf.TokenType
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(name)
    writer.add_token_list(tokens)
    writer.add_token_types(
        [kinds.CONTROL if i in special else kinds.NORMAL for i in range(len(tokens))]
    )
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)


def _permuted(matrix: np.ndarray, heads: int) -> np.ndarray:
    """Permutes the rows of a query or key projection into the order of llama.cpp.

    Hugging Face rotates the entries i and i + d/2 of a head together, llama.cpp the entries
    2i and 2i + 1.
    """
    rows, columns = matrix.shape
    halves = matrix.reshape(heads, 2, rows // heads // 2, columns)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows, columns)
