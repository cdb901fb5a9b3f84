"""Makes configs/prompts/identity.jsonl from generations.jsonl of a run.

Usage: prompts.py GENERATIONS.JSONL > configs/prompts/identity.jsonl
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import json

COUNT = 1000


def main() -> None:
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    seen: set[str] = set()
    for line in lines:
        row = json.loads(line)
        text = row["text"].strip()
        if text and text not in seen and len(seen) < COUNT:
            seen.add(text)
            name = f"identity-{len(seen):04}"
            category = row["prompt"].split("-")[0]
            print(json.dumps({"id": name, "category": category, "prompt": text}))


if __name__ == "__main__":
    main()
