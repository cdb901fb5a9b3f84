"""The raw rows of texts generated with a pair: one per text."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import tables
from decoding import Entry

# A text counts as disturbed if other processes ran for more than this share of the time.
DISTURBED = 0.02
# Choosing the settings of speculation, and measuring with them.
SWEEP, MEASURE = "sweep", "measure"


@dataclass(frozen=True)
class PairRow:
    """One generated text."""

    stage: str  # sweep or measure
    round: int
    prompt: str
    engine: str
    engine_version: str
    threads: int
    dtype: str
    temperature: int
    k: int  # 0 for plain decoding
    draft_dtype: str  # empty for plain decoding
    draft_threads: int  # 0 if the engine chooses them, and for plain decoding
    new_tokens: int
    decode_us: float  # without the prefill
    drafted: int
    accepted: int
    others_share: float
    kept: int  # 1, or 0 if the text was disturbed

    def entry(self) -> Entry:
        """The way in which the text was generated."""
        return Entry(
            engine=self.engine,
            dtype=self.dtype,
            temperature=self.temperature,
            k=self.k,
            draft_dtype=self.draft_dtype,
            draft_threads=self.draft_threads,
        )


def load(file: Path) -> list[PairRow]:
    """Reads all rows of a file; returns none if the file does not exist."""
    return tables.load(file, PairRow)


def append(file: Path, rows: Iterable[PairRow]) -> None:
    """Appends rows to a file; creates the file if it does not exist."""
    tables.append(file, PairRow, rows)
