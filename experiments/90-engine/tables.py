"""Reads and writes raw rows: CSV files with one column per field of a dataclass."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TypeVar

R = TypeVar("R")


def load(file: Path, kind: type[R], older: Mapping[str, str] | None = None) -> list[R]:
    """Reads all rows of a file; returns none if the file does not exist.

    `older` has the values of columns that files of earlier versions do not have.
    """
    if not file.exists():
        return []
    casts = {field.name: field.type for field in fields(kind)}
    with file.open(newline="") as lines:
        records = [{**(older or {}), **record} for record in csv.DictReader(lines)]
    return [
        kind(**{name: cast(record[name]) for name, cast in casts.items()}) for record in records
    ]


def append(file: Path, kind: type[R], rows: Iterable[R]) -> None:
    """Appends rows to a file; creates the file if it does not exist."""
    new = not file.exists()
    with file.open("a", newline="") as out:
        names = [field.name for field in fields(kind)]
        writer = csv.DictWriter(out, names, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
