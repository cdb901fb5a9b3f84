"""Computes `pair-summary.csv` from the raw rows of texts."""

import csv
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from decoding import Entry
from pairrows import MEASURE, PairRow
from peers import OURS
from spread import spread

# With fewer undisturbed texts than this, all texts of an entry count.
ENOUGH = 3
# An engine's speed in a round counts if at least this share of the prompts is left in it.
MOST = 0.5
LLAMA_CPP = "llama.cpp"
# The plain decoding with which an entry is compared at the same temperature.
RIVALS = ("llama_cpp_same_dtype", "llama_cpp_fastest", "specdec_fastest")

Place = tuple[int, str]  # round and prompt


@dataclass(frozen=True)
class Cell:
    """All texts of an entry."""

    rows: list[PairRow]

    def counted(self) -> dict[Place, PairRow]:
        """The undisturbed texts; all texts if fewer than ENOUGH are undisturbed."""
        kept = [row for row in self.rows if row.kept]
        chosen = kept if len(kept) >= ENOUGH else self.rows
        return {(row.round, row.prompt): row for row in chosen}

    def speeds(self) -> list[float]:
        """Tokens per second of every round, over all its prompts."""
        counted = self.counted()
        return [speed(counted, places) for places in self._rounds(counted)]

    def ratios(self, other: "Cell") -> list[float]:
        """This entry's speed ÷ the other's in every round, over the prompts of both."""
        ours, theirs = self.counted(), other.counted()
        rounds = self._rounds(place for place in ours if place in theirs)
        return [speed(ours, places) / speed(theirs, places) for places in rounds]

    def _rounds(self, places: Iterable[Place]) -> list[list[Place]]:
        """The places by round, without the rounds in which too few prompts are left."""
        rounds: dict[int, list[Place]] = defaultdict(list)
        for place in places:
            rounds[place[0]].append(place)
        prompts = len({row.prompt for row in self.rows})
        return [found for found in rounds.values() if len(found) >= MOST * prompts]


def speed(rows: dict[Place, PairRow], places: list[Place]) -> float:
    """Tokens per second over several texts."""
    tokens = sum(rows[place].new_tokens for place in places)
    return tokens / sum(rows[place].decode_us for place in places) * 1e6


def cells(rows: list[PairRow], stage: str) -> dict[Entry, Cell]:
    """The texts of a stage by entry."""
    grouped: dict[Entry, list[PairRow]] = defaultdict(list)
    for row in rows:
        if row.stage == stage:
            grouped[row.entry()].append(row)
    return {entry: Cell(found) for entry, found in grouped.items()}


def columns(rivals: Iterable[str]) -> list[str]:
    """The columns of a summary in which entries are compared with these rivals."""
    counted = ["engine_version", "threads", "rounds", "kept", "dropped"]
    speeds = [*_parts("tokens_per_s"), "acceptance"]
    speeds += [part for rival in rivals for part in _parts(f"over_{rival}")]
    return [field.name for field in fields(Entry)] + counted + speeds


def write(rows: list[PairRow], file: Path) -> None:
    """Writes `pair-summary.csv`."""
    grouped = cells(rows, MEASURE)
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, columns(RIVALS), lineterminator="\n", restval="")
        writer.writeheader()
        for entry, cell in grouped.items():
            rivals = (
                grouped.get(Entry(LLAMA_CPP, entry.dtype, entry.temperature)),
                fastest(grouped, LLAMA_CPP, entry.temperature),
                fastest(grouped, OURS, entry.temperature),
            )
            writer.writerow(record(entry, cell, dict(zip(RIVALS, rivals, strict=True))))


def fastest(grouped: dict[Entry, Cell], engine: str, temperature: int) -> Cell | None:
    """The fastest plain decoding of an engine, in any dtype."""
    wanted = engine, temperature, 0
    return fastest_of(
        cell
        for entry, cell in grouped.items()
        if (entry.engine, entry.temperature, entry.k) == wanted
    )


def fastest_of(candidates: Iterable[Cell]) -> Cell | None:
    """The fastest entry, if any of them has a round that counts."""
    timed = [cell for cell in candidates if cell.speeds()]
    return max(timed, key=lambda cell: statistics.median(cell.speeds()), default=None)


def record(entry: Entry, cell: Cell, rivals: Mapping[str, Cell | None]) -> dict[str, object]:
    """The row of an entry, which is compared with those rivals that there are."""
    first, drafted = cell.rows[0], sum(row.drafted for row in cell.rows)
    kept = sum(row.kept for row in cell.rows)
    speeds = cell.speeds()
    found: dict[str, object] = asdict(entry) | {
        "engine_version": first.engine_version,
        "threads": first.threads,
        "rounds": len(speeds),
        "kept": kept,
        "dropped": len(cell.rows) - kept,
    }
    found |= _spread("tokens_per_s", speeds, 1)
    if drafted:
        found["acceptance"] = f"{sum(row.accepted for row in cell.rows) / drafted:.3f}"
    for name, rival in rivals.items():
        found |= _spread(f"over_{name}", cell.ratios(rival) if rival else [], 3)
    return found


def _parts(name: str) -> list[str]:
    """The columns of a median and its quartiles."""
    return [name, f"{name}_q1", f"{name}_q3"]


def _spread(name: str, values: list[float], digits: int) -> dict[str, str]:
    """The median of some values and their quartiles; nothing if there are none."""
    if not values:
        return {}
    low, middle, high = spread(values)
    numbers = zip(_parts(name), (middle, low, high), strict=True)
    return {column: f"{number:.{digits}f}" for column, number in numbers}
