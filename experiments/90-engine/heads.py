"""Times a pass of an EAGLE-3 head, compared with the time in which memory delivers its bytes.

    cargo build --release
    python experiments/90-engine/heads.py --out OUT

The target has the shape 110m with random weights, and the head one layer of the same width. A pass
has one row of a committed token, after 64 tokens: it reads the matrices of the fused features, of
the layer and of its LM head. `specdec bench` measures it in turns with memory bandwidth.

`taps.csv` has the time of a target's pass of five rows that keeps three hidden states of every row,
divided by that of a pass that keeps none. Both alternate, sample by sample.
"""

import argparse
import csv
import json
import re
import subprocess
from pathlib import Path

import numpy as np

from peers import Child
from weights import SHAPES, VOCAB, folder

ROOT = Path(__file__).resolve().parents[2]
SPECDEC = ROOT / "target/release/specdec"
SHAPE, TAPS, SEED = SHAPES["110m"], 3, 48
DTYPES = {"f32": 4.0, "bf16": 2.0, "q8_0": 34 / 32}
BAR, TAPS_BAR = 1.15, 1.01
MOST_QUEUED = 0.02


def matrices() -> dict[str, tuple[int, int]]:
    """Names and shapes of the head's matrices."""
    wide, inner = SHAPE.hidden, SHAPE.intermediate
    layer = {
        "self_attn.q_proj": (wide, 2 * wide),
        "self_attn.k_proj": (wide, 2 * wide),
        "self_attn.v_proj": (wide, 2 * wide),
        "self_attn.o_proj": (wide, wide),
        "mlp.gate_proj": (inner, wide),
        "mlp.up_proj": (inner, wide),
        "mlp.down_proj": (wide, inner),
    }
    named = {f"midlayer.{name}.weight": shape for name, shape in layer.items()}
    return {"fc.weight": (wide, TAPS * wide), **named, "lm_head.weight": (VOCAB, wide)}


def head(work: Path) -> Path:
    """Write the head in the layout of SafeAILab, unless it is there."""
    place = work / "110m-eagle3"
    place.mkdir(parents=True, exist_ok=True)
    norms = ["hidden_norm", "input_layernorm", "post_attention_layernorm"]
    tensors = {f"midlayer.{name}.weight": (SHAPE.hidden,) for name in norms}
    tensors |= {"norm.weight": (SHAPE.hidden,), **matrices()}
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
    }
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
    return float(re.search(r"^draft: (\S+) us per token", shown, re.M)[1]), bandwidth


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
    target, draft = folder(SHAPE, args.work), head(args.work)
    weights = sum(rows * columns for rows, columns in matrices().values())
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
        writer.writerow(["dtype", "repeat", "bytes", "pass_us", "gb_per_s", "ratio"])
        for repeat in range(args.repeats):
            for dtype, size in DTYPES.items():
                found, bandwidth = measure(target, draft, dtype, args.seconds)
                ratio = found / (weights * size / bandwidth / 1e3)
                row = [dtype, repeat, round(weights * size), found, round(bandwidth, 2)]
                writer.writerow([*row, round(ratio, 4)])
                print(*row, f"{ratio:.3f} of the time of its bytes (bar: {BAR})", flush=True)


if __name__ == "__main__":
    main()
