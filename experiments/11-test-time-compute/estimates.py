"""What n texts are worth, estimated from the N >= n texts that each problem has.

Every estimate is a number from 0 to 1 per problem: an expectation over all sets of n of its N
texts. Intervals are over problems, never over texts.
"""

import math
import random
from collections import Counter
from collections.abc import Sequence

import numpy as np

SEED = 11
SHUFFLES = 1000
RESAMPLES = 10_000
# The quantile of the normal distribution for intervals of 95 %.
Z = 1.959964


def pass_at(k: int, correct: Sequence[bool]) -> float:
    """The probability that one of k texts is correct (Chen et al. 2021, arXiv 2107.03374)."""
    n, c = len(correct), sum(correct)
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def ranked(n: int, values: Sequence[float], scores: Sequence[float]) -> float:
    """The expected value of the text with the largest score among n of them.

    The text of rank i, from 0, is the best of n if it is drawn and none of those before it is.
    """
    order = sorted(range(len(values)), key=lambda text: -scores[text])
    others = len(values) - 1
    ways = sum(math.comb(others - i, n - 1) * values[text] for i, text in enumerate(order))
    return ways / math.comb(len(values), n)


def majority(answers: Sequence[float | None]) -> float | None:
    """The most frequent answer; of equals the first, as `specdec generate` chooses.

    Texts without an answer do not vote.
    """
    votes = Counter(answer for answer in answers if answer is not None)
    # Counter keeps the order of first occurrence, and most_common is stable.
    return votes.most_common(1)[0][0] if votes else None


def majorities(
    problem: str, answers: Sequence[float | None], right: float, sizes: Sequence[int]
) -> list[float]:
    """For each size n, how often the majority of n answers is right.

    It is the share of SHUFFLES orders of the answers, drawn from a seed, whose first n have the
    right majority. The same orders serve all sizes.
    """
    draw = random.Random(f"{SEED}/{problem}")
    hits = [0] * len(sizes)
    for _ in range(SHUFFLES):
        order = draw.sample(answers, len(answers))
        for i, size in enumerate(sizes):
            hits[i] += majority(order[:size]) == right
    return [hit / SHUFFLES for hit in hits]


def wilson(values: Sequence[float]) -> tuple[float, float]:
    """Wilson's interval of the mean of numbers from 0 to 1.

    It takes them for zeros and ones, which vary the most for a given mean, so it is wide rather
    than narrow. Unlike a bootstrap, it has a width where all problems are solved.
    """
    n, mean = len(values), sum(values) / len(values)
    middle = (mean + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * math.sqrt(mean * (1 - mean) / n + Z**2 / (4 * n**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def _interval(found: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(found, (0.025, 0.975))
    return float(low), float(high)


def _chosen(n: int) -> np.ndarray:
    """The problems of every bootstrap resample."""
    return np.random.default_rng(SEED).integers(n, size=(RESAMPLES, n))


def difference(more: Sequence[float], less: Sequence[float]) -> tuple[float, float, float]:
    """The mean difference of two numbers per problem, with a bootstrap interval over problems."""
    differences = np.subtract(more, less)
    return float(differences.mean()), *_interval(differences[_chosen(len(more))].mean(axis=1))


def ratio(above: Sequence[float], below: Sequence[float]) -> tuple[float, float, float]:
    """The ratio of two sums over problems, with a bootstrap interval over problems."""
    above, below = np.asarray(above, float), np.asarray(below, float)
    chosen = _chosen(len(above))
    found = above[chosen].sum(axis=1) / below[chosen].sum(axis=1)
    return float(above.sum() / below.sum()), *_interval(found)
