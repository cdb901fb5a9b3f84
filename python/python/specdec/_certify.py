"""Whether a verifier that somebody wrote is exact."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np
from numpy.typing import DTypeLike, NDArray

from specdec import _arrays, _core
from specdec._columns import Columns

#: A verifier: p (k + 1, V), q (k, V), draft (k,) and rng give the tokens of the round.
Verifier = Callable[[NDArray[Any], NDArray[Any], NDArray[np.int64], _core.Rng], Any]


@dataclass(frozen=True)
class Witness:
    """Where the law of a verifier leaves the target's."""

    case: str
    #: A round along the way.
    p: NDArray[np.float64]
    q: NDArray[np.float64]
    draft: NDArray[np.int64]
    #: The tokens after which the next has another law than p.
    after: NDArray[np.int64]
    expected: NDArray[np.float64]
    found: NDArray[np.float64]


@dataclass(frozen=True)
class Bug:
    """A known bug with its distance from what was found."""

    name: str
    #: The mistake in one sentence.
    imitates: str
    #: Total variation between its law and the law that was found.
    tv: float
    #: Cases in which both have the same distribution, of all.
    cases: tuple[int, int]


@dataclass(frozen=True)
class Sampling:
    """How rounds were sampled."""

    #: How often an exact verifier may be refuted.
    level: float
    #: A verifier so far off is refuted in nine of ten runs.
    min_detectable_tv: float
    #: log10 of what bets on the laws of known bugs have won.
    log10_wealth: float
    #: Pearson's X², and what it exceeds with half the level; None if the bets ended the sampling.
    statistic: Optional[float]
    critical: float
    #: Rounds with a text that the target never has.
    impossible: int


@dataclass(frozen=True, repr=False)
class Certificate:
    """What was found out about a verifier. It is true unless something speaks against it."""

    #: "exact" (enumerated), "not_refuted" (sampled), "wrong", or "invalid": it did what none may.
    verdict: str
    vocab: int
    k: int
    #: Differences up to this count as rounding.
    bar: float
    #: Paths that were enumerated, or rounds that were sampled.
    rounds: int
    #: The largest total variation of the next k + 1 tokens over the cases.
    max_tv: float
    #: The largest difference at one text.
    max_error: float
    #: Case by case: `name`, `about`, `rounds`, `tv_joint`, `tv_first_token`, `max_error`, `noise`.
    cases: Columns
    #: Where the law leaves the target's, in the case in which it does so the most.
    worst: Optional[Witness]
    #: What it did that no verifier may do.
    fault: Optional[str]
    #: The known bug with the same distribution; else `closest_bug` has the closest one.
    likely_bug: Optional[Bug]
    closest_bug: Optional[Bug]
    #: How rounds were sampled; None if all outcomes were enumerated.
    sampling: Optional[Sampling]
    _table: str = field(compare=False)
    _sentence: str = field(compare=False)

    @property
    def exact(self) -> bool:
        """Whether every outcome was enumerated, and the law is the target's."""
        return self.verdict == "exact"

    @property
    def enumerated(self) -> bool:
        """Whether every outcome was enumerated."""
        return self.sampling is None and self.verdict != "invalid"

    @property
    def paths(self) -> int:
        """Paths that were enumerated."""
        return self.rounds if self.enumerated else 0

    def __bool__(self) -> bool:
        return self.verdict in ("exact", "not_refuted")

    def __repr__(self) -> str:
        bug = "" if self.likely_bug is None else f"; likely bug: {self.likely_bug.name}"
        return f"<{self._sentence}{bug}>"

    def __str__(self) -> str:
        return f"{self._sentence}\n{self._table}".rstrip()


def certify(
    fn: Verifier,
    vocab: int = 4,
    k: int = 3,
    *,
    dtype: DTypeLike = np.float64,
    detect: float = 0.01,
    rounds: Optional[int] = None,
    seed: int = 0,
) -> Certificate:
    """Tells whether a verifier is exact, and which known bug it has if not.

    `fn(p, q, draft, rng)` decides on a round: p (k + 1, V) holds the target's laws, q (k, V) those
    that the tokens of draft (k,) were drawn from. It returns the tokens of the round, from 1 to
    k + 1: the accepted beginning of the draft and one more; -1 behind them is padding. It must
    depend on these and on the answers of rng alone:

    - `rng.choose(weights)` draws an index. A function that asks for nothing else is *enumerated*:
      every draft and every outcome, in pairs of p and q that are easy, close, truncated or
      disjoint. The joint distribution of the next k + 1 tokens is the target's to `bar` (1e-12),
      or not.
    - `rng.uniform()`, and `rng.generator`, a `numpy.random.Generator`: a function that asks for
      these is *sampled*, with so many rounds that one that is off by a total variation of
      `detect` is refuted in nine of ten runs (or with `rounds` of them, from `seed` on); an exact
      one is refuted in one of a thousand.

    With `dtype` float32, p and q have that type, and `bar` allows for its rounding.

    Raises what `fn` raises, and `ValueError` for options out of range, weights that are none, and
    a function that draws elsewhere.
    """
    single = np.dtype(dtype) == np.float32
    if not single and np.dtype(dtype) != np.float64:
        raise ValueError(f"dtype is {np.dtype(dtype)}: allowed are float64 and float32")
    for name, number in (("vocab", vocab), ("k", k), ("rounds", 1 if rounds is None else rounds)):
        _arrays.counts(name, [number], 1, 1_000_000_000)
    _arrays.counts("seed", [seed], 0, 2**63 - 1)
    found, table, sentence = _core.certify(
        fn,
        _returned,
        np.random.default_rng(seed),
        vocab=vocab,
        k=k,
        single=single,
        detect=detect,
        rounds=rounds,
        seed=seed,
    )
    return _certificate(json.loads(found), table, sentence)


def exact(
    fn: Verifier,
    vocab: int = 4,
    k: int = 3,
    *,
    dtype: DTypeLike = np.float64,
    detect: float = 0.01,
    rounds: Optional[int] = None,
    seed: int = 0,
) -> Certificate:
    """`certify` for tests: `assert specdec.exact(my_verifier)`.

    The certificate is false if something speaks against the verifier. It is printed then, so that
    pytest shows it below the failed assertion.
    """
    found = certify(fn, vocab, k, dtype=dtype, detect=detect, rounds=rounds, seed=seed)
    if not found:
        print(found)
    return found


def _returned(value: Any) -> list[int]:
    if value is None:
        raise ValueError("the verifier returned None: allowed are the tokens of the round")
    found: list[int] = _arrays.tokens("what the verifier returned", value).tolist()
    return found


def _certificate(found: dict[str, Any], table: str, sentence: str) -> Certificate:
    cases, worst, sampling = found.pop("cases"), found.pop("worst"), found.pop("sampling")
    names = cases[0] if cases else ()
    likely, closest = (_bug(found.pop(name)) for name in ("likely_bug", "closest_bug"))
    return Certificate(
        **found,
        cases=Columns({name: np.array([case[name] for case in cases]) for name in names}),
        worst=None if worst is None else _witness(worst),
        likely_bug=likely,
        closest_bug=closest,
        sampling=None if sampling is None else Sampling(**sampling),
        _table=table,
        _sentence=sentence,
    )


def _bug(found: Optional[dict[str, Any]]) -> Optional[Bug]:
    if found is None:
        return None
    alike, every = found["cases"]
    return Bug(found["name"], found["imitates"], found["tv"], (alike, every))


def _witness(found: dict[str, Any]) -> Witness:
    def law(name: str) -> NDArray[np.float64]:
        return np.array(found[name], np.float64)

    def tokens(name: str) -> NDArray[np.int64]:
        return np.array(found[name], np.int64)

    return Witness(
        case=found["case"],
        p=law("p"),
        q=law("q"),
        draft=tokens("draft"),
        after=tokens("after"),
        expected=law("expected"),
        found=law("found"),
    )
