"""Convert tiny checkpoints by llama.cpp's converter and write the logits of llama.cpp.

    pip install -r tests/gguf_written/requirements.txt
    python tests/gguf_written/make.py --llama-cpp DIR --build DIR [CASE …]

The checkpoints are those of tests/families. README.md says how to build llama.cpp. differences.md
has the distance of llama.cpp from transformers; the run fails if it is more than the case allows.
"""

import argparse
import json
import logging
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, Mxfp4Config

from cases import CASES, Case
from converter import compile_program, convert, logits, tokenizer, weights

HERE = Path(__file__).parent
FAMILIES = HERE.parent / "families"
sys.path.append(str(FAMILIES))
import reference

# Positions of the texts, of more in tests/families.
LENGTH = 24
MOST_BYTES = 130_000
# By how much a router must prefer the experts that it chooses, relative to its largest logit.
DECIDED = 1e-3
HEADING = """\
# Differences

How far llama.cpp's logits are from those of transformers in f64, relative to the largest logit.
Written by make.py. "Rounded" is how much they change when llama.cpp computes with the stored file
instead of one in f32: it rounds what it multiplies weights of bf16 with to bf16 as well.

| case | stored as | positions compared | difference | rounded |
|---|---|---|---|---|"""


@dataclass(frozen=True)
class Tools:
    """Where llama.cpp's sources and the program of logits.c are."""

    llama_cpp: Path
    program: Path


def without_layer(tensors: dict[str, torch.Tensor], left_out: int) -> dict[str, torch.Tensor]:
    """Return the tensors of the other layers, with the numbers that they then have."""
    rest = {}
    for name, tensor in tensors.items():
        before, _, after = name.partition(".layers.")
        layer, _, part = after.partition(".")
        if layer and int(layer) > left_out:
            name = f"{before}.layers.{int(layer) - 1}.{part}"
        if not layer or int(layer) != left_out:
            rest[name] = tensor
    return rest


def write_checkpoint(case: Case, folder: Path) -> None:
    """Write the checkpoint that is converted: the one in tests/families, or a changed one."""
    source = FAMILIES / case.folder
    config = json.loads((source / "config.json").read_text()) | case.changes
    tensors = folder / "model.safetensors"
    shutil.copy(source / tensors.name, tensors)
    if case.left_out is not None:
        config["num_hidden_layers"] -= 1
        config.pop("layer_types", None)
        rest = without_layer(load_file(tensors), case.left_out)
        save_file(rest, tensors, metadata={"format": "pt"})
    tokens = json.loads((source / "tokenizer.json").read_text())["model"]["vocab"]
    write = lambda name, content: (folder / name).write_text(json.dumps(content))
    write("config.json", config)
    write("tokenizer.json", tokenizer(len(tokens)))
    write("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})


def text(case: Case) -> tuple[list[int], np.ndarray]:
    """Return the text of a case and the logits that tests/families has for it."""
    expected = json.loads((FAMILIES / case.folder / "expected.json").read_text())
    longest = max(expected["texts"], key=lambda text: len(text["tokens"]))
    return longest["tokens"][:LENGTH], np.array(longest["logits"][:LENGTH])


def decided(model: transformers.PreTrainedModel, tokens: list[int]) -> bool:
    """Return whether every router clearly prefers the experts that it chooses."""
    for found, chosen in reference.routes(model, tokens):
        ordered = found.sort(-1, descending=True).values
        used = chosen.shape[-1]
        gaps = ordered[:, used - 1] - ordered[:, used]
        if gaps.min() < DECIDED * found.abs().max():
            return False
    return True


def by_transformers(folder: Path, tokens: list[int]) -> np.ndarray:
    """Return the logits of transformers in f64, as those in tests/families are computed."""
    config = json.loads((folder / "config.json").read_text())
    packed: dict[str, Any] = {}
    if "quantization_config" in config:
        packed["quantization_config"] = Mxfp4Config(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        folder,
        config=AutoConfig.from_pretrained(folder),
        dtype=torch.float32,
        attn_implementation="eager",
        experts_implementation="eager",
        **packed,
    ).eval()
    model = reference.widen(model)
    assert decided(model, tokens), f"{folder}: a router is undecided"
    return reference.logits(model, tokens).numpy()


def in_json(rows: np.ndarray) -> str:
    """Return logits as JSON with nine digits, one line per position."""
    lines = [f"[{', '.join(f'{x:.9g}' for x in row)}]" for row in rows]
    return "[\n" + ",\n".join(lines) + "\n]"


def away(rows: np.ndarray, exact: np.ndarray) -> float:
    """Return the largest difference of logits, relative to the largest logit."""
    return np.abs(rows - exact).max() / np.abs(exact).max()


def make(case: Case, tools: Tools, folder: Path) -> str:
    """Write the files of a case and return its line of the table."""
    write_checkpoint(case, folder)
    tokens, exact = text(case)
    changed = case.changes or case.left_out is not None
    if changed:
        exact = by_transformers(folder, tokens)

    config = json.loads((folder / "config.json").read_text())
    file, wide = HERE / f"{case.folder}.gguf", folder / f"{case.folder}.gguf"
    kind = "bf16" if config["dtype"] == "bfloat16" else "f32"
    convert(tools.llama_cpp, folder, file, kind)
    convert(tools.llama_cpp, folder, wide, "f32")
    assert file.stat().st_size <= MOST_BYTES, f"{file}: {file.stat().st_size} bytes"
    stored, same = weights(file), weights(wide)
    assert stored.keys() == same.keys()
    assert all(np.array_equal(stored[name], same[name]) for name in same)

    rows = logits(tools.program, wide, tokens)
    rounded = away(logits(tools.program, file, tokens), rows)
    positions = case.positions or len(tokens)
    gap = away(rows[:positions], exact[:positions])
    assert gap <= case.near, f"{case.folder}: llama.cpp is {gap:.1e} away"

    parts = [f'"texts": [\n{{"tokens": {tokens},\n"logits": {in_json(rows)}}}\n]']
    parts.append(f'"positions": {positions}')
    if changed:
        parts.append(f'"transformers": {in_json(exact)}')
    file.with_suffix(".json").write_text("{" + ",\n".join(parts) + "}\n")
    return f"| `{case.folder}` | {kind} | {positions} | {gap:.1e} | {rounded:.1e} |"


def main() -> None:
    """Make all cases, or those named; the table is written if all are made."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--llama-cpp", type=Path, required=True, help="its sources")
    parser.add_argument("--build", type=Path, required=True, help="its build folder")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    arguments = parser.parse_args()
    transformers.logging.disable_progress_bar()
    logging.disable(logging.WARNING)
    lines = [HEADING]
    with tempfile.TemporaryDirectory() as work:
        tools = Tools(arguments.llama_cpp.resolve(), Path(work) / "logits")
        compile_program(tools.llama_cpp, arguments.build.resolve(), tools.program)
        for case in CASES:
            if not arguments.cases or case.folder in arguments.cases:
                folder = Path(work) / case.folder
                folder.mkdir()
                lines.append(make(case, tools, folder))
                print(lines[-1], flush=True)
    if not arguments.cases:
        (HERE / "differences.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
