"""Compares the texts of chat templates with those of Python's jinja2.

    pip install jinja2==3.1.6
    cargo build --release --example chat_template
    python experiments/95-chat-templates/run.py

It needs only Python 3.11 or newer with pip.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import argparse
import csv
import datetime
import hashlib
import json
import re
import subprocess
import tarfile
import tempfile
from dataclasses import asdict, dataclass, fields

from conversations import CASES, TOKENS, asked, message
from oracle import TODAY, rendered

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = REPOSITORY / "target" / "release" / "examples" / "chat_template"

# The source distribution that holds the templates of real models.
PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
ARCHIVE = f"llama_cpp_python-{VERSION}.tar.gz"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
TEMPLATES = "vendor/llama.cpp/models/templates"

# What looks like the name of a control token in a template.
CONTROLS = re.compile(
    r"<\|[^|<>\s]{1,40}\|>|<｜[^｜<>]{1,40}｜>|</?[a-z][a-z_]*>|\[/?[A-Z_]{2,}\]|\]~!?b?\[?\]?|\[e~\["
)


@dataclass
class Row:
    """What came of one template."""

    template: str
    # Conversations with equal texts, refused by both, by Python alone, by specdec alone, and
    # with texts that differ.
    equal: int = 0
    both_refuse: int = 0
    python_refuses: int = 0
    specdec_refuses: int = 0
    differ: int = 0
    # Names of control tokens in messages of every role: how many conversations keep exactly
    # the template's own control tokens, how many are refused, and how many do neither.
    apart: int = 0
    apart_refused: int = 0
    apart_wrong: int = 0


@dataclass
class Refusal:
    """A conversation that is not rendered, or whose text differs."""

    template: str
    conversation: str
    python: str
    specdec: str


def archive(folder: Path) -> Path:
    """The source distribution, downloaded if the folder does not have it."""
    file = folder / ARCHIVE
    if not file.exists():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        package = ["--no-binary", PACKAGE, f"{PACKAGE}=={VERSION}", "--dest", str(folder)]
        subprocess.run(pip + package, check=True)
    with file.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != SHA256:
        sys.exit(f"{file}: the SHA-256 is {found}, not {SHA256}")
    return file


def unpacked(file: Path, folder: Path) -> list[Path]:
    """The templates of the archive."""
    with tarfile.open(file) as content:
        prefix = f"{ARCHIVE.removesuffix('.tar.gz')}/{TEMPLATES}/"
        members = [m for m in content if m.name.startswith(prefix) and m.name.endswith(".jinja")]
        content.extractall(folder, members, filter="data")
    return sorted(folder.rglob("*.jinja"))


def answers(program: Path, file: Path, requests: list[dict]) -> list[dict]:
    """What specdec makes of some requests."""
    lines = "".join(json.dumps({**one, "today": f"{TODAY:%Y-%m-%d}"}) + "\n" for one in requests)
    done = subprocess.run([program, file], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.removesuffix("\n").split("\n")]


def compare(program: Path, file: Path, row: Row) -> list[Refusal]:
    """Renders the conversations of the experiment on both sides."""
    source, refusals = file.read_text(), []
    ours = answers(program, file, [{"values": values} for _, values in CASES])
    for (name, values), own in zip(CASES, ours, strict=True):
        text, why = rendered(source, values)
        said = own.get("refused", "").removeprefix("template: ")
        if why is None and own.get("text") == text:
            row.equal += 1
            continue
        refusals.append(Refusal(row.template, name, why or "", said))
        if why is not None and said:
            row.both_refuse += 1
        elif why is not None:
            row.python_refuses += 1
        elif said:
            row.specdec_refuses += 1
        else:
            row.differ += 1
            refusals[-1].specdec = "another text"
    return refusals


def occurrences(text: str, part: str) -> list[int]:
    return [at for at in range(len(text)) if text.startswith(part, at)]


def keep_apart(program: Path, file: Path, row: Row) -> list[Refusal]:
    """Puts the names of control tokens into messages of every role."""
    source, refusals = file.read_text(), []
    controls = sorted({*CONTROLS.findall(source), *TOKENS.values()})
    cases = []
    for control in controls:
        for role in ["user", "system", "assistant"]:
            harmless, hostile = (
                asked(
                    *([message("system", "be " + more)] if role == "system" else []),
                    message("user", "hello " + (more if role == "user" else "")),
                    message("assistant", "yes " + (more if role == "assistant" else "")),
                    message("user", "more"),
                )
                for more in ["x", f"{control} and {control}."]
            )
            # The control tokens of the harmless text are the template's own.
            text, _ = rendered(source, harmless)
            if text is not None:
                cases.append((f"{control} in {role}", hostile, text))
    requests = [{"values": hostile, "controls": controls} for _, hostile, _ in cases]
    ours = answers(program, file, requests) if requests else []
    for (name, hostile, harmless), own in zip(cases, ours, strict=True):
        text, why = rendered(source, hostile)
        if "refused" in own:
            row.apart_refused += 1
            said = own["refused"].removeprefix("template: ")
            refusals.append(Refusal(row.template, name, why or "", said))
            continue
        # Offsets in bytes as offsets in characters.
        plain = {len(own["text"].encode()[:at].decode()) for at in own["plain"]}
        kept = {
            control: [
                at
                for at in occurrences(own["text"], control)
                if plain.isdisjoint(range(at, at + len(control)))
            ]
            for control in controls
        }
        counts = {control: len(places) for control, places in kept.items()}
        expected = {control: len(occurrences(harmless, control)) for control in controls}
        if own["text"] == text and counts == expected:
            row.apart += 1
        else:
            row.apart_wrong += 1
            refusals.append(Refusal(row.template, name, why or "", "not kept apart"))
    return refusals


def write(file: Path, kind: type, rows: list) -> None:
    with file.open("w", newline="", encoding="utf-8") as content:
        table = csv.DictWriter(content, [field.name for field in fields(kind)], lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(row) for row in rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--program", type=Path, default=PROGRAM, help="the built example")
    options.add_argument("--downloads", type=Path, help=f"a folder that has or gets {ARCHIVE}")
    results = REPOSITORY / "results" / "95-chat-templates"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    options.add_argument("--out", type=Path, default=results / today, help="folder for the tables")
    chosen = options.parse_args()
    rows, refusals = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for file in unpacked(archive(chosen.downloads or folder), folder):
            row = Row(file.stem)
            refusals += compare(chosen.program, file, row)
            refusals += keep_apart(chosen.program, file, row)
            rows.append(row)
    chosen.out.mkdir(parents=True, exist_ok=True)
    write(chosen.out / "templates.csv", Row, rows)
    write(chosen.out / "refusals.csv", Refusal, refusals)
    names = [field.name for field in fields(Row)][1:]
    totals = {name: sum(getattr(row, name) for row in rows) for name in names}
    print(len(rows), "templates:", ", ".join(f"{name} {n}" for name, n in totals.items()))
    if totals["specdec_refuses"] or totals["apart_wrong"]:
        sys.exit("specdec refuses what Python renders, or does not keep control tokens apart")


if __name__ == "__main__":
    main()
