"""Times passes of an EAGLE-3 head and of a block of eight rows, compared with the time in which
memory delivers their bytes.

    cargo build --release
    python experiments/90-engine/heads.py --out OUT

The target has the shape 110m with random weights, and the head one layer of the same width. A pass
has one row of a committed token, after 64 tokens: it reads the matrices of the fused features, of
the layer and of its LM head. The block has two layers (DFlash), and its pass has the row of a
committed token and eight of the block. `specdec bench` measures both in turns with memory bandwidth.

`taps.csv` has the time of a target's pass of five rows that keeps three hidden states of every row,
divided by that of a pass that keeps none. Both alternate, sample by sample.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import argparse
import csv
import itertools
import json
import re
import subprocess

import numpy as np

from peers import Child
from weights import SHAPES, VOCAB, folder

ROOT = Path(__file__).resolve().parents[2]
SPECDEC = ROOT / "target/release/specdec"
SHAPE, TAPS, SEED = SHAPES["110m"], 3, 48
ROWS, LAYERS, MASK = 8, 2, 0
DTYPES = {"f32": 4.0, "bf16": 2.0, "q8_0": 34 / 32}
BAR, BLOCK_BAR, TAPS_BAR = 1.15, 1.25, 1.01
MOST_QUEUED = 0.02


def matrices(block: bool) -> dict[str, tuple[int, int]]:
    """Names and shapes of the matrices of a head or a block."""
    wide, inner = SHAPE.hidden, SHAPE.intermediate
    read = wide if block else 2 * wide
    layer = {
        "self_attn.q_proj": (wide, read),
        "self_attn.k_proj": (wide, read),
        "self_attn.v_proj": (wide, read),
        "self_attn.o_proj": (wide, wide),
        "mlp.gate_proj": (inner, wide),
        "mlp.up_proj": (inner, wide),
        "mlp.down_proj": (wide, inner),
    }
    layers = [f"layers.{number}" for number in range(LAYERS)] if block else ["midlayer"]
    named = {f"{own}.{name}.weight": shape for own in layers for name, shape in layer.items()}
    return {"fc.weight": (wide, TAPS * wide), **named, "lm_head.weight": (VOCAB, wide)}


def head(work: Path, block: bool) -> Path:
    """Write the head in the layout of SafeAILab, or the block in that of z-lab."""
    place = work / ("110m-dflash" if block else "110m-eagle3")
    place.mkdir(parents=True, exist_ok=True)
    norms = {"norm.weight": (SHAPE.hidden,)}
    if block:
        heads = SHAPE.hidden // SHAPE.heads
        norms["hidden_norm.weight"] = (SHAPE.hidden,)
        for layer in (f"layers.{number}" for number in range(LAYERS)):
            for name in ("input_layernorm", "post_attention_layernorm"):
                norms[f"{layer}.{name}.weight"] = (SHAPE.hidden,)
            for name in ("q_norm", "k_norm"):
                norms[f"{layer}.self_attn.{name}.weight"] = (heads,)
    else:
        for name in ("hidden_norm", "input_layernorm", "post_attention_layernorm"):
            norms[f"midlayer.{name}.weight"] = (SHAPE.hidden,)
    tensors = norms | matrices(block)
    own = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "num_hidden_layers": LAYERS,
        "head_dim": SHAPE.hidden // SHAPE.heads,
        "block_size": ROWS,
        "dflash_config": {"mask_token_id": MASK, "target_layer_ids": [1, 5, 9]},
    }
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": SHAPE.hidden,
        "intermediate_size": SHAPE.intermediate,
        "num_hidden_layers": 1,
        "num_attention_heads": SHAPE.heads,
        "num_key_value_heads": SHAPE.kv_heads,
        "vocab_size": VOCAB,
        "draft_vocab_size": VOCAB,
        "max_position_embeddings": 1024,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
    } | (own if block else {})
    (place / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    header, data, rng = {}, bytearray(), np.random.default_rng(SEED)
    for name, shape in tensors.items():
        values = np.ones(shape) if len(shape) == 1 else 0.02 * rng.standard_normal(shape)
        begin = len(data)
        data += values.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    content = len(text).to_bytes(8, "little") + text + data
    (place / "model.safetensors").write_bytes(content)
    return place


def measure(target: Path, draft: Path, dtype: str, seconds: int) -> tuple[float, float]:
    """Microseconds of a pass, and the memory bandwidth in GB/s."""
    command = [SPECDEC, "bench", "--target", target, "--draft", draft, "--dtype", dtype]
    command += ["--draft-dtype", dtype, "--seconds", str(seconds)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    row = re.search(r"^ *1 +\d+ +\S+ +\S+ +\S+ +\S+ +(\S+) +(\S+)%", shown, re.M)
    bandwidth = float(row[1]) / (float(row[2]) / 100)
    return float(re.search(r"^draft: (\S+) us per", shown, re.M)[1]), bandwidth


def taps(target: Path, samples: int) -> tuple[float, list[float]]:
    """Times with states ÷ times without: that of the medians, and the quartiles of pairs."""
    child = Child("specdec", [SPECDEC, "bench", "--target", target, "--interactive"], 2)
    pairs = []
    for _ in range(samples):
        plain, kept = (child.pass_of(request) for request in ("pass 5", "tapped 5"))
        if max(plain.queue_share, kept.queue_share) <= MOST_QUEUED:
            pairs.append((plain.micros, kept.micros))
    child.close()
    plain, kept = np.median(pairs, axis=0)
    ratios = [kept / plain for plain, kept in pairs]
    return kept / plain, np.quantile(ratios, (0.25, 0.75)).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path(__file__).parent / "work")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--samples", type=int, default=400, help="of each kind, for the states")
    args = parser.parse_args()
    target = folder(SHAPE, args.work)
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "taps.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["target", "ratio", "quartile_1", "quartile_3"])
        for name, place in (("embedded", ROOT / "models/target"), (SHAPE.name, target)):
            ratio, quartiles = taps(place, args.samples)
            writer.writerow([name, *(round(x, 4) for x in (ratio, *quartiles))])
            print(name, f"T(5) with states: {ratio:.4f} of that without (bar: {TAPS_BAR})", flush=True)
    with (args.out / "heads.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["head", "dtype", "repeat", "bytes", "pass_us", "gb_per_s", "ratio"])
        for repeat, block in itertools.product(range(args.repeats), (False, True)):
            name, bar = ("dflash", BLOCK_BAR) if block else ("eagle3", BAR)
            weights = sum(rows * columns for rows, columns in matrices(block).values())
            draft = head(args.work, block)
            for dtype, size in DTYPES.items():
                found, bandwidth = measure(target, draft, dtype, args.seconds)
                ratio = found / (weights * size / bandwidth / 1e3)
                row = [name, dtype, repeat, round(weights * size), found, round(bandwidth, 2)]
                writer.writerow([*row, round(ratio, 4)])
                print(*row, f"{ratio:.3f} of the time of its bytes (bar: {bar})", flush=True)


if __name__ == "__main__":
    main()
