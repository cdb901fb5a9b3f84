"""Results folders as data frames."""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import json
import os
import re
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Optional, Union

#: Columns that hold names, even if they look like numbers.
NAMES = ("cell", "prompt", "category", "params", "text_sha256", "seal", "digests")
#: An apostrophe that keeps spreadsheets from taking a string for a formula.
GUARD = r"^'('*[=+\-@\t\r\n])"
#: The name of a file with rows of a long table, which come before those of its CSV file.
SEGMENT = re.compile(r"(.+)-(\d{5,})\.parquet")
#: Columns that Parquet files hold as JSON.
JSON = ("tokens", "beam")
#: Columns that together identify a row.
ROW = ("cell", "prompt", "repeat", "round", "node")
#: The tables that a run may mark as superseded by another attempt.
ATTEMPTED = ("generations", "blocks")


class Run(Mapping[str, Any]):
    """A results folder: tables by name, read on first use.

    The names are those of the CSV files: `summary`, `survival`, `rounds`, `positions`,
    `generations`, `blocks`, …; `texts` is `generations.jsonl`. docs/metrics.md defines every
    column. Generations and blocks that another attempt superseded are left out. Rows of long
    tables, and those of packed runs, are in Parquet files (`rounds-00001.parquet`, …), for which
    pandas needs pyarrow.
    """

    def __init__(self, path: Path, frames: str, superseded: bool) -> None:
        self.path = path
        self._library = frames
        self._superseded = superseded
        self._files: dict[str, Optional[Path]] = {}
        self._files |= {_stem(file): file for file in sorted(path.glob("*.csv*"))}
        self._segments = _segments(path)
        generations = file_of(path, "generations.jsonl")
        if generations is not None or "texts" in self._segments:
            self._files["texts"] = generations
        self._read: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._files:
            raise KeyError(f"{self.path} has no table {name}: there are {', '.join(self._files)}")
        if name not in self._read:
            frame = self._table(name)
            if name in ATTEMPTED and not self._superseded and "superseded" in frame.columns:
                frame = self._current(frame)
            self._read[name] = frame
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {', '.join(self._files)})"

    @property
    def _frames(self) -> Any:
        return importlib.import_module(self._library)

    @property
    def plan(self) -> dict[str, Any]:
        """`plan.toml`: what was run, including its cells (Python 3.11 or newer)."""
        import tomllib

        return tomllib.loads((self.path / "plan.toml").read_text(encoding="utf-8"))

    @property
    def manifest(self) -> dict[str, Any]:
        """`manifest.json`: the machine, the build, and the time."""
        text = (self.path / "manifest.json").read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text)
        return found

    def _table(self, name: str) -> Any:
        parts = [self._columns(file) for file in self._segments.get(name, [])]
        file = self._files[name]
        if file is not None:
            last = parts[-1] if parts else None
            rest = self._frame(file, name == "texts", last)
            # A run that was killed between two steps has the rows of its last segment twice.
            if last is not None and len(rest) and _first(rest) == _first(last):
                rest = rest[len(last) :]
            if last is None or len(rest):
                parts.append(rest)
        library = self._frames
        if library.__name__ == "polars":
            return library.concat(parts)
        return library.concat(parts, ignore_index=True)

    def _columns(self, file: Path) -> Any:
        library = self._frames
        if library.__name__ == "pandas" and not importlib.util.find_spec("pyarrow"):
            raise ImportError(f"pandas needs pyarrow for {file.name}: pip install pyarrow")
        frame = library.read_parquet(file)
        if library.__name__ == "polars":
            beam = dict.fromkeys(("log_prob", "score"), library.Float64)
            beam |= dict.fromkeys(("steps", "rows"), library.Int64)
            kinds = (library.List(library.Int64), library.Struct(beam))
            json_columns = [
                library.col(name).str.json_decode(kind)
                for name, kind in zip(JSON, kinds)
                if name in frame.columns
            ]
            times = library.selectors.decimal().cast(library.Float64)
            return frame.with_columns(times, *json_columns)
        for name in frame.columns:
            if name.endswith("_us"):
                frame[name] = frame[name].astype(float)
            elif name in JSON:
                frame[name] = frame[name].map(json.loads, na_action="ignore")
        return frame

    def _frame(self, file: Path, lines: bool, like: Any) -> Any:
        data = bytes_of(file)
        library = self._frames
        if library.__name__ == "polars":
            if lines:
                return library.read_ndjson(BytesIO(data))
            columns = library.read_csv(BytesIO(data), n_rows=0).columns
            names = {name: library.String for name in columns if name in NAMES}
            if like is not None:
                names = dict(like.schema)
            frame = library.read_csv(
                BytesIO(data), infer_schema_length=None, schema_overrides=names
            )
            return frame.with_columns(library.col(library.String).str.replace(GUARD, "${1}"))
        if lines:
            return library.read_json(BytesIO(data), lines=True, dtype={name: str for name in NAMES})
        kinds = {name: str for name in NAMES}
        frame = library.read_csv(BytesIO(data), dtype=kinds, keep_default_na=False, na_values=[""])
        for name in frame.columns:
            if library.api.types.is_string_dtype(frame[name]):
                frame[name] = frame[name].str.replace(GUARD, r"\1", regex=True)
        return frame

    def _current(self, frame: Any) -> Any:
        if self._frames.__name__ == "polars":
            return frame.filter(~self._frames.col("superseded"))
        return frame[~frame["superseded"]].reset_index(drop=True)


def load(
    run: Union[str, os.PathLike[str]],
    *,
    frames: Optional[str] = None,
    superseded: bool = False,
) -> Run:
    """The results folder of a run (`results/<experiment>/<run>`), by `specdec run`.

    `frames` names the library of the tables: `polars`, `pandas`; without it polars, if it is
    installed, else pandas. With `superseded`, generations and blocks that another attempt
    superseded are included.

    Raises `FileNotFoundError` for a folder without tables, and `ImportError` without a library.
    """
    known = ("polars", "pandas")
    if frames is not None and frames not in known:
        raise ValueError(f"frames is {frames!r}: allowed are polars and pandas")
    wanted = known if frames is None else (frames,)
    library = next((name for name in wanted if importlib.util.find_spec(name)), None)
    if library is None:
        raise ImportError(f"load needs {' or '.join(wanted)}: pip install {wanted[0]}")
    path = Path(run)
    if not any(path.glob("*.csv*")):
        raise FileNotFoundError(f"{path} is not a results folder: it holds no CSV file")
    return Run(path, library, superseded)


def bytes_of(file: Path) -> bytes:
    """The contents of a file, decompressed."""
    data = file.read_bytes()
    return gzip.decompress(data) if file.suffix == ".gz" else data


def _stem(file: Path) -> str:
    return file.name.split(".csv")[0]


def _segments(folder: Path) -> dict[str, list[Path]]:
    """The segments of each table, in order."""
    found: dict[str, list[Path]] = {}
    named = [(SEGMENT.fullmatch(file.name), file) for file in folder.glob("*.parquet")]
    numbered = [(int(match[2]), match[1], file) for match, file in named if match]
    for _, table, file in sorted(numbered):
        found.setdefault(table, []).append(file)
    return found


def _first(frame: Any) -> list[Any]:
    """The identity of the first row of a table."""
    return [frame[name].head(1).to_list() for name in ROW if name in frame.columns]


def file_of(folder: Path, name: str) -> Optional[Path]:
    """A file of a folder, compressed or not."""
    both = (folder / name, folder / f"{name}.gz")
    return next((file for file in both if file.exists()), None)
