"""Whether a verifier of the user is exact."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np
from numpy.typing import DTypeLike, NDArray

from specdec_harness import _arrays, _core
from specdec_harness._columns import Columns

#: A verifier: p (k + 1, V), q (k, V), draft (k,) and rng give the tokens of the round.
Verifier = Callable[[NDArray[Any], NDArray[Any], NDArray[np.int64], _core.Rng], Any]


@dataclass(frozen=True)
class Witness:
    """Where the distribution of a verifier differs from the target's."""

    case: str
    #: A round in which it differs.
    p: NDArray[np.float64]
    q: NDArray[np.float64]
    draft: NDArray[np.int64]
    #: The tokens after which the next token is not distributed as p.
    after: NDArray[np.int64]
    expected: NDArray[np.float64]
    found: NDArray[np.float64]


@dataclass(frozen=True)
class Bug:
    """A known bug and its distance from what was found."""

    name: str
    #: The mistake in one sentence.
    imitates: str
    #: Total variation between its distribution and the one that was found.
    tv: float
    #: Number of cases in which both distributions are equal, and number of all cases.
    cases: tuple[int, int]


@dataclass(frozen=True)
class Sampling:
    """How rounds were sampled."""

    #: The probability with which an exact verifier may be refuted.
    level: float
    #: A verifier that is off by this is refuted in nine of ten runs.
    min_detectable_tv: float
    #: log10 of what bets on the distributions of known bugs have won.
    log10_wealth: float
    #: Pearson's X², and its critical value at half the level; None if the bets ended the sampling.
    statistic: Optional[float]
    critical: float
    #: Rounds with a sequence that the target never has.
    impossible: int


@dataclass(frozen=True, repr=False)
class Certificate:
    """The findings about a verifier. It is true unless something speaks against the verifier."""

    #: "exact" (enumerated), "not_refuted" (sampled), "wrong", or "invalid" (see `fault`).
    verdict: str
    vocab: int
    k: int
    #: Differences up to this count as rounding.
    bar: float
    #: Paths that were enumerated, or rounds that were sampled.
    rounds: int
    #: The share of drafted tokens that are accepted, and that rejection sampling accepts.
    acceptance: float
    rejection_acceptance: float
    #: The largest total variation of the next k + 1 tokens over the cases.
    max_tv: float
    #: The largest difference at one sequence.
    max_error: float
    #: Case by case: `name`, `about`, `vocab`, `k`, `rounds`, `tv_joint`, `tv_first_token`,
    #: `max_error`, `acceptance`, `rejection_acceptance`, `noise`.
    cases: Columns
    #: Where the distribution differs from the target's, in the case in which it differs most.
    worst: Optional[Witness]
    #: What the verifier did that no verifier may do.
    fault: Optional[str]
    #: The known bug with the same distribution; `alike` has several, if there are several, and if
    #: there is none, `closest_bug` is the closest one.
    likely_bug: Optional[Bug]
    alike: tuple[Bug, ...]
    closest_bug: Optional[Bug]
    #: How rounds were sampled; None if all outcomes were enumerated.
    sampling: Optional[Sampling]
    _table: str = field(compare=False)
    _sentence: str = field(compare=False)

    @property
    def exact(self) -> bool:
        """Whether every outcome was enumerated, and the distribution is the target's."""
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
    """Certifies a verifier: is it exact, and which known bug does it have if not?

    `fn(p, q, draft, rng)` decides on a round: p (k + 1, V) holds the target's distributions, q
    (k, V) those that the tokens of draft (k,) were drawn from. It returns the tokens of the round,
    from 1 to k + 1: the accepted beginning of the draft and one more; -1 after them is padding. It
    must depend on these and on the answers of rng alone:

    - `rng.choose(weights)` draws an index. A function that uses nothing else is *enumerated*:
      every draft and every outcome, in pairs of p and q that are easy, close, truncated,
      disjoint, nearly certain or rare, and at about a thousand values of p/q. The joint distribution of the next k + 1 tokens is the target's to `bar` (1e-12),
      or not.
    - `rng.uniform()`, and `rng.generator`, a `numpy.random.Generator`: a function that uses these
      is *sampled*. The number of rounds is such that a verifier that is off by a total variation
      of `detect` is refuted in nine of ten runs (or it is `rounds`, from `seed` on). An exact one
      is refuted in one of a thousand.

    With `dtype` float32, p and q have that type, and `bar` allows for its rounding.

    Raises what `fn` raises, and `ValueError` for options out of range, malformed weights, and a
    function that draws from another source.
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

    The certificate is false if something speaks against the verifier. Then it is printed, so that
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
    alike = tuple(bug for bug in map(_bug, found.pop("alike")) if bug is not None)
    return Certificate(
        **found,
        cases=Columns({name: np.array([case[name] for case in cases]) for name in names}),
        worst=None if worst is None else _witness(worst),
        likely_bug=likely,
        alike=alike,
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
    def distribution(name: str) -> NDArray[np.float64]:
        return np.array(found[name], np.float64)

    def tokens(name: str) -> NDArray[np.int64]:
        return np.array(found[name], np.int64)

    return Witness(
        case=found["case"],
        p=distribution("p"),
        q=distribution("q"),
        draft=tokens("draft"),
        after=tokens("after"),
        expected=distribution("expected"),
        found=distribution("found"),
    )
