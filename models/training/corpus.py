"""Read the allow-listed crates as documents of two domains, code and prose.

Code consists of Rust sources, split at item boundaries so that documents begin at items
and not only at file headers. Prose consists of Markdown and the text of doc comments.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sources import cargo_packages, locked_packages, source_folder

LIST = Path(__file__).with_name("corpus.json")
DOMAINS = ("code", "prose")
SPLITS = ("train", "valid", "test")
MAX_FILE_BYTES = 300_000
MAX_CRATE_BYTES = 2_000_000
PIECE_BYTES = 6_000
SKIPPED_PARTS = {"target", "unicode_tables", "gen", "generated", "output_tests", "test-macros"}
DIGIT_HEAVY = 0.2

ITEM_START = re.compile(r"(?<=\n)\n(?=[^\s})\]])")
DOC_LINE = re.compile(r"^\s*//[/!](?!/) ?(.*)$")


@dataclass(frozen=True)
class Document:
    """One training document and where it came from."""

    crate: str
    split: str
    domain: str
    text: str


def crate_files(folder: Path) -> list[Path]:
    """List the .rs and .md files of a crate that are small enough, in path order."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".rs", ".md")
        and path.is_file()
        and path.stat().st_size <= MAX_FILE_BYTES
        and not SKIPPED_PARTS & set(path.relative_to(folder).parts)
    ]


def is_table(text: str) -> bool:
    """Return whether a source file is mostly numbers (tables, test vectors)."""
    return sum(map(str.isdigit, text)) > DIGIT_HEAVY * len(text)


def pieces(source: str) -> list[str]:
    """Split Rust source before unindented lines into pieces of about PIECE_BYTES."""
    found, current = [], ""
    for item in ITEM_START.split(source):
        current = f"{current}\n{item}" if current else item
        if len(current) >= PIECE_BYTES:
            found.append(current)
            current = ""
    return found + [current] if current.strip() else found


def doc_text(source: str) -> str:
    """Extract the plain text of /// and //! comments, one paragraph per comment block."""
    lines, previous = [], False
    for line in source.splitlines():
        match = DOC_LINE.match(line)
        if match:
            lines.append(match.group(1).rstrip())
        elif previous:
            lines.append("")
        previous = match is not None
    return "\n".join(lines).strip() + "\n"


def load_list() -> list[dict]:
    """Read the allow-list and check every entry against Cargo.lock."""
    crates = json.loads(LIST.read_text())["crates"]
    locked = locked_packages()
    for crate in crates:
        key = crate["name"], crate["version"]
        if locked.get(key) != crate["checksum"]:
            raise SystemExit(
                f"{key[0]} {key[1]} is not in Cargo.lock with the listed checksum; "
                "check out the commit that trained the models, or make a new list"
            )
    return crates


def documents() -> Iterator[Document]:
    """Yield every document of the corpus, crate by crate, without duplicates."""
    packages = cargo_packages()
    seen: set[bytes] = set()
    for crate in load_list():
        name, split = crate["name"], crate["split"]
        folder = source_folder(packages[name, crate["version"]])
        files = crate_files(folder)
        files.sort(key=lambda path: hashlib.sha256(str(path.relative_to(folder)).encode()).digest())
        budget = MAX_CRATE_BYTES
        for path in files:
            raw = path.read_bytes()
            digest = hashlib.sha256(raw).digest()
            if digest in seen or budget < len(raw):
                continue
            try:
                text = raw.decode()
            except UnicodeDecodeError:
                continue
            seen.add(digest)
            if is_table(text):
                continue
            budget -= len(raw)
            if path.suffix == ".md":
                yield Document(name, split, "prose", text)
                continue
            for piece in pieces(text):
                yield Document(name, split, "code", piece)
            prose = doc_text(text)
            if len(prose) > 200:
                yield Document(name, split, "prose", prose)
