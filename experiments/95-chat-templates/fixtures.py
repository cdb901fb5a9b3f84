"""Writes tests/fixtures/chat/expected.json: what jinja2 makes of the templates there.

    pip install jinja2==3.1.6
    python experiments/95-chat-templates/fixtures.py
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import json

from conversations import CASES, TOKENS
from oracle import TODAY, rendered

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "chat"


def main() -> None:
    cases = [[name, {k: v for k, v in values.items() if k not in TOKENS}] for name, values in CASES]
    expected = {}
    for file in sorted(FOLDER.glob("*.jinja")):
        texts = [rendered(file.read_text(), values) for _, values in CASES]
        expected[file.stem] = [text if why is None else {"refused": why} for text, why in texts]
    content = {"today": f"{TODAY:%Y-%m-%d}", "tokens": TOKENS, "cases": cases, "texts": expected}
    text = json.dumps(content, ensure_ascii=False, indent=1)
    (FOLDER / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
