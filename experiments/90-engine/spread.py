"""Median and quartiles."""

import statistics
from collections.abc import Sequence


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median and third quartile of at least one value."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high
