"""Tables for papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas

from specdec_harness._choice import distinct, name, shown
from specdec_harness._rows import Row


def frame(
    rows: Sequence[Row],
    index: Sequence[str],
    columns: Sequence[str],
    heads: Mapping[str, str],
    digits: int,
) -> pandas.DataFrame:
    """The values of metrics, whose heads are given, by the settings of rows and of columns."""
    order = [*index, *columns]
    ranks = {key: [*distinct(rows, key), None] for key in order}
    ranked = sorted(rows, key=lambda row: [ranks[key].index(row.get(key)) for key in order])
    cells: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
    places: dict[tuple[int, ...], tuple[str, ...]] = {}
    for row in ranked:
        own = cells.setdefault(tuple(shown(row.get(key)) for key in index), {})
        of = tuple(f"{name(key)} = {shown(row.get(key))}" for key in columns)
        rank = tuple(ranks[key].index(row.get(key)) for key in columns)
        for number, (metric, head) in enumerate(heads.items()):
            places[(number, *rank)] = (head, *of)
            own[(head, *of)] = _cell(row, metric, digits)
    found = [places[rank] for rank in sorted(places)]
    return pandas.DataFrame(
        [[own.get(place, "–") for place in found] for own in cells.values()],
        index=_axis(list(cells), [name(key).replace("_", " ") for key in index]),
        columns=_axis(found, [None] * (1 + len(columns))),
    )


def _cell(row: Row, metric: str, digits: int) -> str:
    value, lo, hi = (row.get(metric + end) for end in ("", "_lo", "_hi"))
    if value is None:
        return "–"
    around = "" if lo is None or hi is None else f" [{lo:.{digits}f}, {hi:.{digits}f}]"
    return f"{value:.{digits}f}{around}"


def _axis(keys: list[tuple[str, ...]], names: list[Any]) -> pandas.Index[Any]:
    if len(names) == 1:
        return pandas.Index([key[0] for key in keys], name=names[0])
    return pandas.MultiIndex.from_tuples(keys, names=names)
