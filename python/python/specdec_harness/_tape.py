"""Tapes on disk."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    from typing_extensions import TypeGuard


def is_tape(source: Any) -> TypeGuard[Union[str, os.PathLike[str]]]:
    """Whether the source is a file, and not columns."""
    return isinstance(source, (str, os.PathLike))


def tape_bytes(source: str | os.PathLike[str]) -> tuple[str, bytes]:
    """The name of a tape, and its lines, decompressed."""
    data = Path(source).read_bytes()
    name = os.fspath(source)
    if data[:2] == b"\x1f\x8b":
        return name, gzip.decompress(data)
    if data[:4] == b"PAR1":
        raise ValueError(
            f"{name}: only the program reads tapes as Parquet: allowed are .jsonl and .jsonl.gz"
        )
    return name, data
