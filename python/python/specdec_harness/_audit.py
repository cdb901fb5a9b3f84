"""Whether completions were drawn from the target's distribution."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdec_harness import _arrays, _core, _tape
from specdec_harness._columns import Columns

#: Distributions of all tokens, or a function of the tokens of a prompt and a completion that
#: returns those of the completion.
Distributions = Union[ArrayLike, Callable[[NDArray[np.int64], NDArray[np.int64]], ArrayLike]]


@dataclass(frozen=True, repr=False)
class AuditVerdict:
    """The verdict of an audit; docs/audit.md describes the numbers."""

    sequences: int
    tokens: int
    #: Sequences that repeat another one and do not count.
    copies: int
    #: The probability with which exact completions may be refuted.
    level: float
    refuted: bool
    #: log10 of the largest e-value after a sequence.
    log10_e: float
    #: The same for the completions without speculation.
    plain_log10_e: Optional[float]
    #: Tokens with p = 0.
    impossible: int
    #: The same in the completions without speculation.
    plain_impossible: Optional[int]
    #: log10 of the e-value against such tokens that are no more frequent than in those.
    log10_e_impossible: Optional[float]
    #: The first of them: name of the sequence, its number, position, token.
    first_impossible: Optional[tuple[str, int, int, int]]
    #: The bug, if its bet alone refutes the completions and the evidence excludes all others.
    bug: Optional[str]
    #: The bugs that the evidence does not exclude, the best first.
    alike: tuple[str, ...]
    #: The bets, the best first: `bug`, `summary`, `seen`, `tokens`, `log10_e`, `strength`, `tv`,
    #: `tv_bound`, `tv_detectable`.
    bets: Columns
    #: The bugs on which no bet could be placed.
    not_placed: tuple[str, ...]
    _audit: _core.Audit = field(compare=False)

    @property
    def e_value(self) -> float:
        """The largest e-value after a sequence: if exact, it reaches c with probability <= 1/c."""
        return float(np.power(10.0, min(self.log10_e, 308.0)))

    def __repr__(self) -> str:
        bug = f"; likely bug: {' or '.join(self.alike)}" if self.alike else ""
        return f"<{self._sentence()}{bug}>"

    def __str__(self) -> str:
        lines = [self._sentence()]
        if self.first_impossible is not None:
            sequence, _, position, token = self.first_impossible
            lines.append(
                f"{self.impossible} tokens that the target cannot draw, the first {token} at "
                f"position {position} of sequence {sequence}"
            )
        if self.copies:
            lines.append(f"copies of other completions, which are not counted: {self.copies}")
        if self.bug is not None:
            at = self.bets["bug"].tolist().index(self.bug)
            summary, seen = self.bets["summary"][at], self.bets["seen"][at]
            lines.append(f"it looks like {self.bug}: {summary} (seen: {seen})")
        elif self.alike:
            lines.append(f"it looks like {' or '.join(self.alike)}")
        return "\n".join(lines)

    def _sentence(self) -> str:
        word = "refuted" if self.refuted else "not refuted"
        one = self.sequences == 1
        completions = "1 completion" if one else f"{self.sequences} completions"
        return (
            f"{word} at level {self.level:g}: {self.tokens} tokens of {completions}, "
            f"e = 10^{self.log10_e:.1f}"
        )


def audit(
    source: Union[str, os.PathLike[str], ArrayLike],
    tokens: Optional[ArrayLike] = None,
    *,
    p: Optional[Distributions] = None,
    q: Optional[Distributions] = None,
    raw_p: Optional[Distributions] = None,
    raw_q: Optional[Distributions] = None,
    sequences: Optional[ArrayLike] = None,
    lengths: Optional[ArrayLike] = None,
    sources: Optional[Iterable[object]] = None,
    sampling: Optional[int] = None,
    ks: Iterable[int] = (1, 2, 3, 4, 5, 6, 8),
    level: float = 1e-3,
    plain: Optional[AuditVerdict] = None,
) -> AuditVerdict:
    """Whether completions of any program were drawn from the target's distribution.

    `audit(p, tokens)`: `p` (N, V) holds the target's distribution after all sampling settings at
    each of the N tokens, given the tokens before it. `sequences` (N,) names the sequence of each
    token, or `lengths` gives the number of tokens of each sequence; without both there is one
    sequence.

    `audit(tape, p=...)`: the sequences of a tape. A tape holds no distributions, so `p` is needed:
    an array, or a function of the tokens of a prompt and a completion that returns the rows of the
    completion. A tape with several sampling settings needs `sampling`, the index of one.

    More distributions of the same shape allow more bets: `q` are the draft's at the same
    positions, `raw_p` and `raw_q` both before temperature and truncation. `ks`: the possible
    numbers of drafted tokens per round. `sources` says for each sequence what determines it, such
    as `(prompt, seed)`: sequences with the same source are copies and count once. Without it,
    equal sequences of a probability below e^-40 are copies. `level`: the probability with which exact completions may
    be refuted. `plain`: the verdict on completions of the same program without speculation; only
    what exceeds it counts.

    Raises `ValueError` for shapes that do not fit and rows that are not distributions.
    """
    if not 1e-12 <= level <= 0.5:
        raise ValueError(f"level is {level}: allowed is a number from 1e-12 to 0.5")
    found = _core.Audit(_arrays.counts("ks", ks, 1, 64))
    if _tape.is_tape(source):
        if tokens is not None or sequences is not None or lengths is not None:
            raise ValueError("a tape holds its sequences: give it with distributions alone")
        if p is None:
            raise ValueError("a tape holds no distributions: audit(tape, p=...) needs them")
        parts = _sequences_of_tape(source, sampling)
    else:
        if tokens is None or p is not None or sampling is not None:
            raise ValueError("allowed are audit(p, tokens) and audit(tape, p=...)")
        columns: Any = source
        p = columns
        parts = _sequences_of_columns(_arrays.tokens("tokens", tokens), sequences, lengths)
    names: list[Optional[str]] = [None] * len(parts)
    if sources is not None:
        names = [repr(known) for known in sources]
    if len(names) != len(parts):
        raise ValueError(f"sources has {len(names)} values, and there are {len(parts)} sequences")
    total = sum(len(sequence.tokens) for sequence in parts)
    target = _Rows("p", p, total)
    own, raw_target, raw_own = (
        None if rows is None else _Rows(name, rows, total)
        for name, rows in (("q", q), ("raw_p", raw_p), ("raw_q", raw_q))
    )
    begin = 0
    for sequence, origin in zip(parts, names):
        others = tuple(
            None if rows is None else rows.of(sequence, begin)
            for rows in (own, raw_target, raw_own)
        )
        named = (sequence.name, sequence.repeat, origin)
        found.read(named, sequence.tokens, target.of(sequence, begin), others)
        begin += len(sequence.tokens)
    return _verdict(found, level, plain)


@dataclass(frozen=True)
class _Sequence:
    name: str
    repeat: int
    prompt: NDArray[np.int64]
    tokens: NDArray[np.int64]


class _Rows:
    """The distributions of all tokens of all sequences."""

    def __init__(self, name: str, rows: Distributions, total: int) -> None:
        self.name = name
        self.function = rows if callable(rows) else None
        if self.function is None:
            self.rows, self.tolerance = _arrays.distributions(name, rows)
            _arrays.fits(name, self.rows, total, "one for each token")

    def of(self, sequence: _Sequence, begin: int) -> tuple[NDArray[np.float64], float]:
        """Those of a sequence whose tokens begin at this index."""
        if self.function is None:
            return self.rows[begin : begin + len(sequence.tokens)], self.tolerance
        given = self.function(sequence.prompt, sequence.tokens)
        rows, tolerance = _arrays.distributions(self.name, given)
        _arrays.fits(
            self.name, rows, len(sequence.tokens), "one for each token of the completion"
        )
        return rows, tolerance


def _sequences_of_columns(
    tokens: NDArray[np.int64], sequences: Optional[ArrayLike], lengths: Optional[ArrayLike]
) -> list[_Sequence]:
    total = len(tokens)
    if total == 0:
        raise ValueError("tokens is empty: there is nothing to audit")
    names: list[str] = []
    if sequences is not None:
        if lengths is not None:
            raise ValueError("sequences and lengths say the same: give one of them")
        ids = np.asarray(sequences)
        if ids.ndim != 1:
            raise ValueError(f"sequences has the shape {ids.shape}: allowed is one dimension")
        _arrays.fits("sequences", ids, total, "one for each token")
        begins = [at for at in range(total) if at == 0 or ids[at] != ids[at - 1]]
        names = [str(ids[at]) for at in begins]
        twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
        if twice is not None:
            raise ValueError(
                f"sequences: {twice} begins twice: the tokens of a sequence must be consecutive"
            )
        counts = np.diff([*begins, total]).tolist()
    elif lengths is not None:
        counts = _arrays.counts("lengths", lengths, 1, total)
        if sum(counts) != total:
            raise ValueError(f"lengths sum to {sum(counts)}, and there are {total} tokens")
    else:
        counts = [total]
    names = names or [str(number) for number in range(len(counts))]
    parts = np.split(tokens, np.cumsum(counts)[:-1])
    return [_Sequence(name, 0, np.empty(0, np.int64), part) for name, part in zip(names, parts)]


def _sequences_of_tape(
    source: Union[str, os.PathLike[str]], sampling: Optional[int]
) -> list[_Sequence]:
    name, data = _tape.tape_bytes(source)
    sequences, samplings = _core.tape_sequences(name, data)
    if sampling is None and len(samplings) > 1:
        known = "; ".join(f"{number}: {words}" for number, words in enumerate(samplings))
        raise ValueError(f"{name} has several sampling settings, so sampling is one of {known}")
    wanted = 0 if sampling is None else sampling
    if not 0 <= wanted < len(samplings):
        raise ValueError(f"sampling is {wanted}: {name} has the numbers 0 to {len(samplings) - 1}")
    each = [
        _Sequence(prompt, repeat, np.array(before, np.int64), np.array(tokens, np.int64))
        for prompt, repeat, number, before, tokens in sequences
        if number == wanted
    ]
    if not each:
        raise ValueError(f"{name} has no sequence: a log of rounds alone cannot be audited")
    return each


def _verdict(found: _core.Audit, level: float, plain: Optional[AuditVerdict]) -> AuditVerdict:
    verdict: dict[str, Any] = found.verdict(level, None if plain is None else plain._audit)
    rows, missing = verdict.pop("bets"), tuple(verdict.pop("not_placed"))
    names = rows[0] if rows else ()
    columns = {
        name: np.array([np.nan if row[name] is None else row[name] for row in rows])
        for name in names
    }
    return AuditVerdict(**verdict, bets=Columns(columns), not_placed=missing, _audit=found)
