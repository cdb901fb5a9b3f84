"""Write a random tiny checkpoint of every decoder family and transformers' logits for it.

    pip install -r tests/families/requirements.txt
    python tests/families/make.py [CASE …]

Every case becomes a folder. Its logits are computed from the files that were written, and
again from the configuration in its older spelling. For each wrong reading of a setting,
switches.md says by how much it would change them; the run fails if that is too little to
be seen.
"""

import argparse
import json
import logging
import math
import zlib
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, Mxfp4Config, PreTrainedModel

from cases import CASES, Case, has_offset
from cases_gemma4 import GEMMA4
from cases_gpt2 import GPT2
from cases_moe import MIXTURES
from characters import tokenizer
from reference import logits, routes, widen
from spelling import older
from switch import Switch
from switches import switches

HERE = Path(__file__).parent
EVERY_CASE = [*CASES, *MIXTURES, *GPT2, *GEMMA4]
# What a wrong reading must change at least, what f32 may differ from f64 at most, and by how
# much a router must prefer the experts that it chooses, relative to the largest logit.
VISIBLE, NEAR, DECIDED = 1e-2, 1e-5, 1e-3
MOST_BYTES = 100_000
# Products whose weights are larger: of attention's scores, logits and routers.
LARGER = ("q_proj", "k_proj", "qkv_proj", "c_attn", "lm_head", "gate", "router")
HEADING = """\
# Wrong readings

By how much each wrong reading of a checkpoint changes the logits of its folder. Written by
make.py, which takes the right reading for the others of the same case. "All in f32" is
transformers without double precision, and "frequencies alone" is double precision with the
rotary frequencies that transformers computes in f32. "Routers decide by" is the least lead of
the last expert chosen over the first one left out."""


def seeded(name: str) -> torch.Generator:
    """Return random numbers that depend on a name alone."""
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def random_model(case: Case) -> PreTrainedModel:
    """Return a model with random weights, large enough that every setting matters."""
    config = AutoConfig.for_model(case.family, **case.config)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    generator = seeded(f"{case.name} weights{f' {case.draw}' if case.draw else ''}")
    dtype = torch.bfloat16 if case.bf16 else torch.float32
    scalars = [(n, x) for n, x in model.named_buffers() if n.endswith("layer_scalar")]
    for name, parameter in [*model.named_parameters(), *scalars]:
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data = weight(name, noise, case.family).to(dtype)
    return model.to(dtype)


def weight(name: str, noise: Tensor, family: str) -> Tensor:
    """Turn standard normal numbers into a weight of that name."""
    part = name.split(".")[-2]
    if "norm" in part or (part.startswith("ln_") and name.endswith("weight")):
        return 0.4 * noise + (0.0 if has_offset(family) else 1.0)
    if name.endswith("layer_scalar"):
        return 0.3 * noise + 1.0
    if name.endswith("bias"):
        return 0.6 * noise
    if name.endswith("sinks"):
        return 1.5 * noise
    if part in ("embed_tokens", "embed_tokens_per_layer", "wte", "wpe"):
        return (0.4 if family.startswith("gemma") else 1.0) * noise
    gain = 1.7 if part in LARGER else 1.2
    # The inputs are the last dimension but in the experts of gpt-oss and in GPT-2.
    inputs = noise.shape[{"gpt_oss": 1, "gpt2": 0}.get(family, -1)]
    return gain / math.sqrt(inputs) * noise


def texts(case: Case) -> list[list[int]]:
    """Return random texts of the tokenizer's plain tokens, the first of them `<s>`."""
    generator = seeded(f"{case.name} texts")
    draw = lambda n: torch.randint(3, case.tokens, (n,), generator=generator).tolist()
    return [[1, *draw(length - 1)] for length in case.lengths]


def load(folder: Path, config: dict[str, Any]) -> PreTrainedModel:
    """Load the weights of a folder in f32 with a configuration."""
    of = type(AutoConfig.for_model(config["model_type"]))
    packed = {}
    if "quantization_config" in config:
        packed["quantization_config"] = Mxfp4Config(dequantize=True)
    return AutoModelForCausalLM.from_pretrained(
        folder,
        config=of.from_dict(config),
        dtype=torch.float32,
        attn_implementation="eager",
        experts_implementation="eager",
        **packed,
    ).eval()


def all_logits(model: PreTrainedModel, case: Case) -> Tensor:
    """Return the logits of all texts, one row per position."""
    return torch.cat([logits(model, text) for text in texts(case)])


def effect(
    folder: Path, config: dict[str, Any], case: Case, switch: Switch, exact: Tensor
) -> float:
    """Return the largest change of a logit by a wrong reading."""
    with switch.loading():
        model = load(folder, {**config, **switch.config})
    with switch.applied(model):
        changed = all_logits(widen(model), case)
    return (changed - exact).abs().max().item()


def write_json(file: Path, content: dict[str, Any]) -> None:
    """Write JSON with one key per line."""
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def continued(model: PreTrainedModel, tokens: list[int]) -> tuple[list[int], bool]:
    """Append the most probable tokens, up to 90 or to the last position.

    The second value is false if it ended before, where two tokens are nearly as probable.
    """
    most = min(len(tokens) + 90, model.config.max_position_embeddings)
    while len(tokens) < most:
        row = logits(model, tokens)[-1]
        first, second = row.topk(2).values.tolist()
        if first - second < 10 * NEAR * row.abs().max().item():
            return tokens, False
        tokens = [*tokens, row.argmax().item()]
    return tokens, True


def greedy(model: PreTrainedModel, case: Case) -> dict[str, Any]:
    """Return the beginning of a text with its most probable continuation."""
    for beginning in range(4, 20):
        tokens, whole = continued(model, texts(case)[0][:beginning])
        if whole:
            return {"beginning": beginning, "tokens": tokens}
    raise AssertionError(f"{case.name}: no continuation is certain")


def write_expected(file: Path, case: Case, exact: Tensor, greedy: dict[str, Any]) -> None:
    """Write texts and logits with nine digits, one line per position, and a continuation."""
    parts = []
    for text, rows in zip(texts(case), exact.split(list(case.lengths)), strict=True):
        lines = [f"[{', '.join(f'{x:.9g}' for x in row)}]" for row in rows.tolist()]
        parts.append(f'{{"tokens": {text},\n"logits": [\n' + ",\n".join(lines) + "\n]}")
    parts = ",\n".join(parts)
    file.write_text(f'{{"texts": [\n{parts}\n],\n"greedy": {json.dumps(greedy)}}}\n')
    json.loads(file.read_text())


def write_folder(case: Case) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """Write all but the logits; return the folder and the two configurations."""
    folder = HERE / case.folder
    random_model(case).save_pretrained(folder)
    (folder / "generation_config.json").unlink()
    weights = folder / "model.safetensors"
    if case.published is not None:
        tensors = load_file(weights)
        case.published(tensors, seeded(f"{case.name} published {case.draw}"))
        save_file(tensors, weights, metadata={"format": "pt"})
    assert weights.stat().st_size <= MOST_BYTES
    write_json(folder / "tokenizer.json", tokenizer(case.tokens))
    assert Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size() == case.tokens
    config = json.loads((folder / "config.json").read_text())
    older_config = older(config, case)
    write_json(folder / "config.older.json", older_config)
    return folder, config, older_config


def decision(wide: PreTrainedModel, narrow: PreTrainedModel, case: Case) -> float | None:
    """Return by how much routers prefer the last expert chosen to the first one left out.

    It is the least of all positions, relative to the largest logit of the router; None if
    there are no routers. It fails if other experts are chosen in f32.
    """
    least = []
    for text in texts(case):
        for (found, chosen), (_, again) in zip(routes(wide, text), routes(narrow, text)):
            assert torch.equal(chosen, again), f"{case.name}: f32 chooses other experts"
            ordered = found.sort(-1, descending=True).values
            used = chosen.shape[-1]
            gap = (ordered[:, used - 1] - ordered[:, used]).min() / found.abs().max()
            least.append(gap.item())
    return min(least, default=None)


def make(case: Case) -> list[str]:
    """Write the folder of a case and return its section of switches.md."""
    folder, config, older_config = write_folder(case)
    model = widen(load(folder, config))
    exact = all_logits(model, case)
    write_expected(folder / "expected.json", case, exact, greedy(model, case))

    again = all_logits(widen(load(folder, older_config)), case)
    assert torch.equal(exact, again), f"{case.name}: the older spelling means something else"
    largest = exact.abs().max().item()
    away = lambda other: (all_logits(other, case) - exact).abs().max().item() / largest
    narrow = load(folder, config)
    f32 = away(narrow)
    frequencies = away(widen(load(folder, config), frequencies=False))
    assert max(f32, frequencies) < NEAR, f"{case.name}: f32 is {f32:.1e} away"

    near = f"All in f32: {f32:.1e} of that away"
    near += f"; frequencies alone: {frequencies:.1e}." if "rope_parameters" in config else "."
    if (decided := decision(model, narrow, case)) is not None:
        assert decided > DECIDED, f"{case.name}: a router decides by {decided:.1e}: another draw"
        near += f" Routers decide by {decided:.1e} of their largest logit."

    found = [(s, effect(folder, config, case, s, exact)) for s in switches(config, model)]
    hidden = [f"{s.label} ({x:.1e})" for s, x in found if not x > (s.least or VISIBLE)]
    assert not hidden, f"{case.name}: hardly visible: {', '.join(hidden)}"
    print(f"{case.name}: largest logit {largest:.3g}; {near}")
    return [
        f"\n## {case.name}\n",
        f"Largest logit: {largest:.3g}. {near}\n",
        "| reading | largest change of a logit |\n|---|---|",
        *(f"| {s.label} | {x:.2g} |" for s, x in found),
    ]


def main() -> None:
    """Make all cases, or those named; the table is written if all are made."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE")
    names = parser.parse_args().cases
    transformers.logging.disable_progress_bar()
    logging.disable(logging.WARNING)
    sections = [make(case) for case in EVERY_CASE if not names or case.name in names]
    if not names:
        lines = [HEADING, *(line for section in sections for line in section)]
        (HERE / "switches.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
