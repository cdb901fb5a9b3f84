"""Makes prompts.jsonl: pieces of this repository's source and pages.

    python experiments/13-determinism/prompts.py > experiments/13-determinism/prompts.jsonl

The committed file was cut from the repository as it was then; later files give other pieces.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import json
import random

REPOSITORY = Path(__file__).resolve().parents[2]
SEED = 13
# Prompts per category, with the files from which they are cut.
COUNT = 500
SOURCES = {"code": ["src/**/*.rs"], "docs": ["*.md", "docs/*.md", "experiments/*/README.md"]}
# The length of a piece in characters.
SHORTEST, LONGEST = 60, 180


def pieces(category: str) -> list[str]:
    """Different pieces of a category's files; each begins with a line."""
    dice = random.Random(f"{SEED} {category}")
    files = sorted(file for name in SOURCES[category] for file in REPOSITORY.glob(name))
    files = [file for file in files if file.parent != Path(__file__).parent]
    texts = [file.read_text(encoding="utf-8") for file in files]
    found: dict[str, None] = {}
    while len(found) < COUNT:
        # A long file gives more pieces than a short one.
        (text,) = dice.choices(texts, weights=[len(text) for text in texts])
        begin = text.rfind("\n", 0, dice.randrange(len(text))) + 1
        piece = text[begin : begin + dice.randint(SHORTEST, LONGEST)].strip()
        if len(piece) >= SHORTEST and piece.isascii():
            found[piece] = None
    return list(found)


def main() -> None:
    for category in SOURCES:
        for number, prompt in enumerate(pieces(category), 1):
            name = f"{category}-{number:03}"
            print(json.dumps({"id": name, "category": category, "prompt": prompt}))


if __name__ == "__main__":
    main()
