"""Makes long.jsonl: long pieces of this repository's source and pages.

    python experiments/15-batch/prompts.py > experiments/15-batch/long.jsonl

The committed file was cut from the repository as it was then; later files give other pieces.
It needs the package `tokenizers`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import json
import random

from tokenizers import Tokenizer

REPOSITORY = Path(__file__).resolve().parents[2]
SEED = 15
# Eight batches of sixteen, half of each category.
COUNT = 64
SOURCES = {"code": ["src/**/*.rs"], "docs": ["*.md", "docs/*.md", "experiments/*/README.md"]}
# With 48 tokens and a draft after it, a piece fits the target's 1,024 positions.
TOKENS = 900


def pieces(category: str, tokenizer: Tokenizer) -> list[str]:
    """Pieces of a category's files with as many tokens; each begins with a line."""
    dice = random.Random(f"{SEED} {category}")
    files = sorted(file for name in SOURCES[category] for file in REPOSITORY.glob(name))
    texts = [file.read_text(encoding="utf-8") for file in files]
    texts = [text for text in texts if len(text) > 8 * TOKENS]
    found: dict[str, None] = {}
    while len(found) < COUNT:
        text = dice.choice(texts)
        begin = text.rfind("\n", 0, dice.randrange(len(text) - 6 * TOKENS)) + 1
        read = tokenizer.encode(text[begin : begin + 8 * TOKENS])
        if len(read.ids) > TOKENS:
            found[text[begin : begin + read.offsets[TOKENS][0]]] = None
    return list(found)


def main() -> None:
    tokenizer = Tokenizer.from_file(str(REPOSITORY / "models" / "target" / "tokenizer.json"))
    for category in SOURCES:
        for number, prompt in enumerate(pieces(category, tokenizer), 1):
            name = f"{category}-long-{number:03}"
            print(json.dumps({"id": name, "category": category, "prompt": prompt}))


if __name__ == "__main__":
    main()
