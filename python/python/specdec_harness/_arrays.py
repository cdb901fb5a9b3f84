"""Arguments as arrays of uniform types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: How far the sum of a distribution may be from 1; rows are divided by their sums.
ROUNDED = 1e-4
#: The same for numbers of 16 bits.
ROUNDED_16_BITS = 1e-2


def numbers(name: str, value: ArrayLike | Any) -> NDArray[Any]:
    """An array of numbers; the lists of a column become its rows."""
    array = np.asarray(value)
    if array.dtype == object and array.ndim == 1:
        rows = [np.asarray(row) for row in array]
        if len({row.shape for row in rows}) > 1:
            raise ValueError(f"{name}: its rows have different lengths")
        array = np.array(rows)
    if array.dtype.kind not in "fiu" and array.size > 0:
        raise ValueError(f"{name} holds {array.dtype}: allowed are real numbers")
    return array


def distributions(name: str, value: ArrayLike | Any) -> tuple[NDArray[np.float64], float]:
    """Distributions, one per row, and how far their sums may be from 1."""
    array = numbers(name, value)
    if array.ndim != 2:
        raise ValueError(f"{name} has the shape {array.shape}: allowed is one distribution per row")
    tolerance = ROUNDED_16_BITS if array.dtype == np.float16 else ROUNDED
    return np.ascontiguousarray(array, dtype=np.float64), tolerance


def column(name: str, value: ArrayLike | Any) -> NDArray[np.float64]:
    """One number per token."""
    array = numbers(name, value)
    if array.ndim != 1:
        raise ValueError(f"{name} has the shape {array.shape}: allowed is one dimension")
    numeric = np.ascontiguousarray(array, dtype=np.float64)
    missing = np.flatnonzero(np.isnan(numeric))
    if len(missing) > 0:
        raise ValueError(f"{name}[{missing[0]}] is not a number")
    return numeric


def tokens(name: str, value: ArrayLike | Any) -> NDArray[np.int64]:
    """Ids of tokens."""
    array = np.asarray(value)
    if array.ndim != 1:
        raise ValueError(f"{name} has the shape {array.shape}: allowed is one dimension")
    if array.dtype.kind not in "iu" and array.size > 0:
        raise ValueError(f"{name} holds {array.dtype}: allowed are integers")
    return np.ascontiguousarray(array, dtype=np.int64)


def counts(name: str, value: Any, least: int, most: int) -> list[int]:
    """Integers in a range."""
    given = (
        list(value) if isinstance(value, Iterable) and not hasattr(value, "__array__") else value
    )
    array = tokens(name, np.atleast_1d(given))
    for number in array:
        if not least <= number <= most:
            raise ValueError(f"{name}: {number} is out of range: allowed is {least} to {most}")
    return [int(number) for number in array]


def fits(name: str, value: Any, rows: int, why: str) -> None:
    """Refuses a value of another length."""
    if len(value) != rows:
        raise ValueError(f"{name} has {len(value)} rows and not {rows}, {why}")
