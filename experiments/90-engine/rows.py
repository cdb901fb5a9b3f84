"""The raw rows of passes: one per sample."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import tables
from common import CONTEXT

# A sample counts as disturbed by other processes if threads waited for a core for more than
# this share of its time.
DISTURBED = 0.02
# The values of columns that older files do not have.
OLDER = {"context": str(CONTEXT)}


@dataclass(frozen=True)
class Row:
    """One sample of one engine."""

    shape: str
    dtype: str
    engine: str
    engine_version: str
    threads: int
    kind: str  # pass, prefill, read or peak
    m: int  # tokens in the pass; 0 for read and peak
    context: int  # context tokens, including the first row of a pass
    round: int
    micros: float
    queue_share: float
    kept: int  # 1, or 0 if the sample was disturbed


def load(file: Path) -> list[Row]:
    """Reads all rows of a file; returns none if the file does not exist."""
    return tables.load(file, Row, OLDER)


def append(file: Path, rows: Iterable[Row]) -> None:
    """Appends rows to a file; creates the file if it does not exist."""
    tables.append(file, Row, rows)


def keep(file: Path, wanted: Callable[[Row], bool]) -> None:
    """Removes all rows from a file except those that `wanted` selects."""
    part = file.with_suffix(".part")
    part.unlink(missing_ok=True)
    append(part, (row for row in load(file) if wanted(row)))
    part.replace(file)
