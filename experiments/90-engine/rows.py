"""The raw rows: one per sample."""

import csv
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

# A sample counts as disturbed by other processes if threads waited for a core for more than
# this share of its time.
DISTURBED = 0.02


@dataclass(frozen=True)
class Row:
    """One sample of one engine."""

    shape: str
    dtype: str
    engine: str
    engine_version: str
    threads: int
    kind: str  # pass, prefill or read
    m: int  # tokens in the pass; 0 for read
    round: int
    micros: float
    queue_share: float
    kept: int  # 1, or 0 if the sample was disturbed


COLUMNS = [field.name for field in fields(Row)]


def load(file: Path) -> list[Row]:
    """Reads all rows of a file; returns none if the file does not exist."""
    if not file.exists():
        return []
    casts = {field.name: field.type for field in fields(Row)}
    with file.open(newline="") as lines:
        records = csv.DictReader(lines)
        return [Row(**{name: casts[name](record[name]) for name in COLUMNS}) for record in records]


def append(file: Path, rows: Iterable[Row]) -> None:
    """Appends rows to a file; creates the file if it does not exist."""
    new = not file.exists()
    with file.open("a", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def keep(file: Path, wanted: Callable[[Row], bool]) -> None:
    """Removes all rows from a file except those that `wanted` selects."""
    left = [row for row in load(file) if wanted(row)]
    file.unlink(missing_ok=True)
    append(file, left)
