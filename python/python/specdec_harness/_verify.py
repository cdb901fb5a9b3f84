"""The production verifiers, on arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdec_harness import _arrays, _core


class Verified(NamedTuple):
    """What a round emits."""

    #: The accepted tokens, and one more: the correction, or the bonus token.
    tokens: NDArray[np.int64]
    #: How many drafted tokens were accepted.
    accepted: int


@dataclass(frozen=True)
class VerifierInfo:
    """A verifier."""

    name: str
    #: The guarantee on its output: a letter and a word, such as "D lossless".
    guarantee: str
    #: The allowed values of its settings, in words.
    settings: dict[str, str]
    summary: str
    paper: str


def verifiers() -> dict[str, VerifierInfo]:
    """All verifiers by name."""
    each = [
        VerifierInfo(name, kind, dict(keys), *rest) for name, kind, keys, *rest in _core.verifiers()
    ]
    return {info.name: info for info in each}


def verify(
    name: str,
    p: ArrayLike,
    q: ArrayLike | None,
    draft: ArrayLike,
    rng: np.random.Generator | int,
    **settings: float | str,
) -> Verified:
    """Verifies a draft of k tokens with a production verifier.

    `p` (k + 1, V) holds the target's distributions after all sampling settings: after the context,
    and after each drafted token. `q` (k, V) holds the distributions that the tokens `draft` (k,)
    were drawn from; without it they are deterministic (looked up, or the most probable ones). Rows
    sum to 1 within 1e-4 (1e-2 with 16 bits) and are divided by their sums.

    A `numpy.random.Generator` gives one number per call, the seed of the round; an integer is that
    seed. `settings` are those of the verifier: see `verifiers()`.

    Raises `ValueError` for an unknown verifier or setting, shapes that do not fit, rows that are
    not distributions, and drafted tokens with q = 0.
    """
    tokens = _arrays.tokens("draft", draft)
    target = _arrays.distributions("p", p)
    k = len(tokens)
    _arrays.fits("p", target[0], k + 1, "one for each drafted token, and one more")
    drafts = None
    if q is not None:
        drafts = _arrays.distributions("q", q)
        _arrays.fits("q", drafts[0], k, "one for each drafted token")
        if k > 0 and drafts[0].shape[1] != target[0].shape[1]:
            columns, known = drafts[0].shape[1], target[0].shape[1]
            raise ValueError(f"q has distributions of {columns} tokens, and p of {known}")
    for key, value in settings.items():
        if not isinstance(value, (int, float, str, np.integer, np.floating)):
            raise ValueError(f"{key} is {value!r}: a setting is a number or a string")
    found, accepted = _core.verify(name, target, drafts, tokens, seed(rng), settings)
    return Verified(np.array(found, dtype=np.int64), accepted)


def seed(rng: np.random.Generator | int) -> int:
    """The seed from an argument."""
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(0, 2**64, dtype=np.uint64))
    if isinstance(rng, (int, np.integer)) and 0 <= rng < 2**64:
        return int(rng)
    raise ValueError(
        f"rng is {rng!r}: allowed are a numpy.random.Generator and integers from 0 to 2**64 - 1"
    )
