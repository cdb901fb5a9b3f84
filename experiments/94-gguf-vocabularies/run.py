"""Compares the tokens of GGUF vocabularies with those of llama.cpp.

    cargo build --release --example ggml_tokens
    python experiments/94-gguf-vocabularies/run.py

It needs only Python 3.11 or newer with pip.
"""

import argparse
import csv
import datetime
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import asdict, dataclass, fields
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = REPOSITORY / "target" / "release" / "examples" / "ggml_tokens"

# The source distribution that holds llama.cpp's vocabularies.
PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
ARCHIVE = f"llama_cpp_python-{VERSION}.tar.gz"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
MODELS = "vendor/llama.cpp/models"

# What stands between two texts.
BETWEEN = "\n__ggml_vocab_test__\n"


@dataclass
class Row:
    """What came of one vocabulary."""

    vocabulary: str
    model: str
    pre: str
    tokens: int
    # Texts that llama.cpp's authors give with their tokens, the empty one left out: a codec
    # gives it the token before every text, or refuses it.
    lines: int
    equal: int
    refused: str


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
    """The vocabularies of the archive that come with texts and tokens."""
    with tarfile.open(file) as content:
        prefix = f"{ARCHIVE.removesuffix('.tar.gz')}/{MODELS}/ggml-vocab-"
        members = [member for member in content if member.name.startswith(prefix)]
        content.extractall(folder, members, filter="data")
    return sorted(texts.with_suffix("") for texts in folder.rglob("ggml-vocab-*.gguf.inp"))


def cases(file: Path) -> list[tuple[str, list[int]]]:
    """The texts of a vocabulary with the tokens that llama.cpp gives them."""
    texts = file.with_name(file.name + ".inp").read_bytes().decode().split(BETWEEN)
    lines = file.with_name(file.name + ".out").read_text().splitlines()
    expected = [[int(token) for token in line.split()] for line in lines]
    if len(texts) > len(expected) and not texts[-1]:
        texts.pop()  # A separator may also end the file.
    return [case for case in zip(texts, expected, strict=True) if case[0]]


def checked(file: Path, program: Path) -> Row:
    """Compares the tokens of all texts of a vocabulary."""
    pairs = cases(file)
    lines = "".join(json.dumps(text) + "\n" for text, _ in pairs)
    done = subprocess.run([program, file], input=lines, capture_output=True, text=True)
    (model, pre, tokens), *ids = [json.loads(line) for line in done.stdout.splitlines()]
    name = file.name.removeprefix("ggml-vocab-").removesuffix(".gguf")
    row = Row(name, model, pre or "", tokens, len(pairs), 0, "")
    if done.returncode:
        row.refused = done.stderr.strip().removeprefix(f"{file}: ")
        return row
    for (text, expected), got in zip(pairs, ids, strict=True):
        row.equal += got == expected
        if got != expected:
            print(f"{name}: {text!r}\n  llama.cpp {expected}\n  specdec   {got}", file=sys.stderr)
    return row


def shown(rows: list[Row]) -> str:
    """A table of the rows."""
    names = [field.name for field in fields(Row)]
    cells = [names, *([str(cell) for cell in asdict(row).values()] for row in rows)]
    cells = [[*line[:-1], line[-1][:60]] for line in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    line = "  ".join("{:<" + str(width) + "}" for width in widths)
    return "\n".join(line.format(*row).rstrip() for row in cells)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--program", type=Path, default=PROGRAM, help="the built example")
    options.add_argument("--downloads", type=Path, help=f"a folder that has or gets {ARCHIVE}")
    results = REPOSITORY / "results" / "94-gguf-vocabularies"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    options.add_argument("--out", type=Path, default=results / today, help="folder for the table")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = unpacked(archive(chosen.downloads or folder), folder)
        rows = [checked(file, chosen.program) for file in files]
    chosen.out.mkdir(parents=True, exist_ok=True)
    with (chosen.out / "vocabularies.csv").open("w", newline="") as content:
        table = csv.DictWriter(content, [field.name for field in fields(Row)], lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(row) for row in rows)
    print(shown(rows))
    if any(row.equal < row.lines and not row.refused for row in rows):
        sys.exit("tokens differ")


if __name__ == "__main__":
    main()
