"""Writes vectors.json: blocks of every tensor type with their weights, and a whole file.

Both come from the format's own Python package:

    pip install gguf==0.19.0
    python tests/gguf/make.py

Blocks are random bytes with random scales: small, large, negative, zero, subnormal.
Weights are the bytes of f32 numbers.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFEndian, GGUFValueType, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

SEED = 1608
# Blocks per type, and where the f16 scales of a block are.
TYPES = {
    "F32": (8, []),
    "F16": (12, [0]),
    "BF16": (12, []),
    "Q8_0": (6, [0]),
    "Q4_0": (6, [0]),
    "Q4_1": (6, [0, 2]),
    "Q5_0": (6, [0]),
    "Q5_1": (6, [0, 2]),
    "Q4_K": (3, [0, 2]),
    "Q5_K": (3, [0, 2]),
    "Q6_K": (3, [208]),
    "IQ4_NL": (6, [0]),
    "Q3_K": (3, [108]),
    "IQ4_XS": (3, [0]),
    "MXFP4": (6, []),
}
SCALES = [0.011, -0.37, 1234.5, 0.0, 6e-7, -65504.0]


def blocks(rng, name):
    """Random blocks of a type."""
    count, places = TYPES[name]
    _, size = GGML_QUANT_SIZES[Type[name]]
    made = rng.integers(0, 256, (count, size), dtype=np.uint8)
    if name == "F32":
        made = rng.standard_normal(count).astype(np.float32).view(np.uint8).reshape(made.shape)
    if name == "BF16":
        # No exponent of all ones.
        made[:, 1] &= 0xBF
    if name == "MXFP4":
        # Powers of two: the smallest ones, usual ones, and the largest with finite weights.
        made[:, 0] = [0, 1, 2, 121, 127, 252]
    for place in places:
        scales = np.resize(np.roll(SCALES, place // 2), count).astype(np.float16)
        scales *= rng.uniform(0.5, 1.0, count).astype(np.float16)
        made[:, place : place + 2] = scales.view(np.uint8).reshape(count, 2)
    return made.reshape(1, -1)


def vector(rng, name):
    """Blocks and weights of a type."""
    made = blocks(rng, name)
    weights = dequantize(made, Type[name]).astype("<f4")
    assert np.isfinite(weights).all(), name
    return {"blocks": made.tobytes().hex(), "weights": weights.tobytes().hex()}


def whole_file(rng):
    """A file with every type of value and some tensors."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.gguf"
        writer = GGUFWriter(path, "test", endianess=GGUFEndian.LITTLE)
        writer.add_custom_alignment(64)
        writer.add_key_value("value.u8", 250, GGUFValueType.UINT8)
        writer.add_key_value("value.i8", -100, GGUFValueType.INT8)
        writer.add_key_value("value.u16", 65000, GGUFValueType.UINT16)
        writer.add_key_value("value.i16", -32000, GGUFValueType.INT16)
        writer.add_key_value("value.u32", 4_000_000_000, GGUFValueType.UINT32)
        writer.add_key_value("value.i32", -2_000_000_000, GGUFValueType.INT32)
        writer.add_key_value("value.f32", 0.1, GGUFValueType.FLOAT32)
        writer.add_key_value("value.u64", 2**64 - 5, GGUFValueType.UINT64)
        writer.add_key_value("value.i64", -(2**63), GGUFValueType.INT64)
        writer.add_key_value("value.f64", 0.1, GGUFValueType.FLOAT64)
        writer.add_key_value("value.bool", True, GGUFValueType.BOOL)
        writer.add_key_value("value.text", "Ġgrün\n", GGUFValueType.STRING)
        writer.add_array("list.i32", [3, -1, 2])
        writer.add_array("list.f32", [0.5, -2.25])
        writer.add_array("list.bool", [True, False, True])
        writer.add_array("list.text", ["a", "", "▁c"])
        tensors = {
            "plain": rng.standard_normal((3, 5)).astype(np.float32),
            "narrow": rng.standard_normal((2, 3, 4)).astype(np.float16),
        }
        for name, tensor in tensors.items():
            writer.add_tensor(name, tensor)
        tensors["packed"] = blocks(rng, "Q5_1").reshape(2, -1)
        writer.add_tensor("packed", tensors["packed"], raw_dtype=Type.Q5_1)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        weights = {name: tensors[name].astype("<f4") for name in ("plain", "narrow")}
        weights["packed"] = dequantize(tensors["packed"], Type.Q5_1).astype("<f4")
        return {
            "bytes": path.read_bytes().hex(),
            "tensors": {
                name: {"shape": list(array.shape), "weights": array.tobytes().hex()}
                for name, array in weights.items()
            },
        }


def main():
    rng = np.random.default_rng(SEED)
    made = {"types": {name: vector(rng, name) for name in TYPES}, "file": whole_file(rng)}
    text = json.dumps(made, indent=1) + "\n"
    Path(__file__).with_name("vectors.json").write_text(text)


if __name__ == "__main__":
    main()
