"""Write random tiny heads in their published layouts, and reference implementations' logits.

    pip install -r tests/heads/requirements.txt, and what its first lines say
    python tests/heads/make.py --sources FOLDER [CASE …]

FOLDER has clones of the repositories that README.md names. Every case becomes a folder. Its
logits come from the files that were written: once from the reference implementation, once
from the formula; the run fails if the two differ, or if a wrong reading is hardly visible.
"""

import argparse
import json
import logging
import sys
from pathlib import Path

import torch
import transformers

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "families"))

import peers  # noqa: E402
from block_cases import BLOCK_CASES, BlockCase  # noqa: E402
from block_maker import BlockMaker  # noqa: E402
from cases import CASES, TARGETS, Case  # noqa: E402
from maker import Maker, make_target, written  # noqa: E402

HEADING = """\
# Wrong readings

By how much each wrong reading of a head changes the logits of its folder, by the formula.
Written by make.py, which takes the right reading for the others of the same case."""


def make(case: Case) -> list[str]:
    """Write the folder of a case and return its section of readings.md."""
    maker = BlockMaker(case) if isinstance(case, BlockCase) else Maker(case)
    rounds = maker.rounds()
    maker.check()
    content = {**maker.head_of_file(), "rounds": rounds}
    if maker.variants:
        content["variants"] = maker.variants
    file = maker.folder / "expected.json"
    file.write_text(written(content) + "\n")
    assert json.loads(file.read_text()).keys() == content.keys()
    largest = max(abs(x) for r in rounds for row in r["rows"] for x in row["logits"])
    near = f"the reference and the formula are {maker.largest:.0e} apart, "
    near += f"{maker.rounding:.0e} with the formula in f32"
    print(f"{case.name}: largest logit {largest:.3g}; {near}", flush=True)
    return [
        f"\n## {case.name}\n",
        f"Largest logit: {largest:.3g}; {near}.\n",
        "| reading | largest change of a logit |\n|---|---|",
        *(f"| {label} | {x:.2g} |" for label, x in maker.effects.items()),
    ]


def main() -> None:
    """Make all cases, or those named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    args = parser.parse_args()
    peers.SOURCES = args.sources
    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    logging.disable(logging.WARNING)
    for name in TARGETS:
        make_target(name)
    cases = [*CASES, *BLOCK_CASES]
    sections = [make(case) for case in cases if not args.cases or case.name in args.cases]
    if not args.cases:
        lines = [HEADING, *(line for section in sections for line in section)]
        (HERE / "readings.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
