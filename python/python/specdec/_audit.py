"""Whether texts were drawn from the target's law."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdec import _arrays, _core, _tape
from specdec._columns import Columns

#: Laws of all tokens, or a function of the tokens of a prompt and a text that returns those of
#: the text.
LawsOf = Union[ArrayLike, Callable[[NDArray[np.int64], NDArray[np.int64]], ArrayLike]]


@dataclass(frozen=True, repr=False)
class AuditVerdict:
    """What an audit says; docs/audit.md describes the numbers."""

    texts: int
    tokens: int
    #: How often exact texts may be refuted.
    level: float
    refuted: bool
    #: log10 of the largest e-value after a text.
    log10_e: float
    #: The same for the texts without speculation.
    plain_log10_e: Optional[float]
    #: Tokens that the target's law does not have.
    impossible: int
    #: The first of them: text, its number, place, token.
    first_impossible: Optional[tuple[str, int, int, int]]
    #: The bug whose bet won most, if that alone refutes the texts.
    bug: Optional[str]
    #: The bets, the best first: `bug`, `summary`, `seen`, `tokens`, `log10_e`, `strength`, `tv`,
    #: `tv_bound`, `tv_detectable`.
    bets: Columns
    #: The bugs on which none could be placed.
    not_placed: tuple[str, ...]
    _audit: _core.Audit = field(compare=False)

    @property
    def e_value(self) -> float:
        """The largest e-value after a text: exact texts reach c with probability 1/c at most."""
        return float(np.power(10.0, min(self.log10_e, 308.0)))

    def __repr__(self) -> str:
        bug = "" if self.bug is None else f"; likely bug: {self.bug}"
        return f"<{self._sentence()}{bug}>"

    def __str__(self) -> str:
        lines = [self._sentence()]
        if self.first_impossible is not None:
            text, _, place, token = self.first_impossible
            lines.append(
                f"{self.impossible} tokens that the target cannot draw, the first {token} at place "
                f"{place} of text {text}"
            )
        if self.bug is not None:
            bets = self.bets
            lines.append(
                f"it looks like {bets['bug'][0]}: {bets['summary'][0]} (seen: {bets['seen'][0]})"
            )
        return "\n".join(lines)

    def _sentence(self) -> str:
        word = "refuted" if self.refuted else "not refuted"
        texts = "1 text" if self.texts == 1 else f"{self.texts} texts"
        return (
            f"{word} at level {self.level:g}: {self.tokens} tokens of {texts}, "
            f"e = 10^{self.log10_e:.1f}"
        )


def audit(
    source: Union[str, os.PathLike[str], ArrayLike],
    tokens: Optional[ArrayLike] = None,
    *,
    p: Optional[LawsOf] = None,
    q: Optional[LawsOf] = None,
    raw_p: Optional[LawsOf] = None,
    raw_q: Optional[LawsOf] = None,
    texts: Optional[ArrayLike] = None,
    lengths: Optional[ArrayLike] = None,
    sampling: Optional[int] = None,
    ks: Iterable[int] = (1, 2, 3, 4, 5, 6, 8),
    level: float = 1e-3,
    plain: Optional[AuditVerdict] = None,
) -> AuditVerdict:
    """Whether texts were drawn from the target's law, whatever program made them.

    `audit(p, tokens)`: `p` (N, V) holds the target's law after all sampling settings at each of
    the N tokens, given the tokens before it. `texts` (N,) names the text that each token belongs
    to, or `lengths` says how many tokens each text has; without both there is one text.

    `audit(tape, p=...)`: the texts of a tape. It holds no laws, so `p` is needed: as an array, or
    as a function of the tokens of a prompt and a text that returns the rows of the text. A tape
    with several sampling settings needs `sampling`, the number of one.

    More laws of the same shape allow more bets: `q` the draft's at the same places, and `raw_p`
    and `raw_q` both before temperature and truncation. `ks`: how many tokens rounds draft, as
    many as are possible. `level`: how often exact texts may be refuted. `plain`: the verdict on
    texts of the same program without speculation; only what goes beyond it counts.

    Raises `ValueError` for shapes that do not fit and rows that are no law.
    """
    if not 1e-12 <= level <= 0.5:
        raise ValueError(f"level is {level}: allowed is a number from 1e-12 to 0.5")
    found = _core.Audit(_arrays.counts("ks", ks, 1, 64))
    if _tape.is_tape(source):
        if tokens is not None or texts is not None or lengths is not None:
            raise ValueError("a tape holds its texts: give it with laws alone")
        if p is None:
            raise ValueError("a tape holds no laws: audit(tape, p=...) needs those of its tokens")
        parts = _texts_of_tape(source, sampling)
    else:
        if tokens is None or p is not None or sampling is not None:
            raise ValueError("allowed are audit(p, tokens) and audit(tape, p=...)")
        columns: Any = source
        p = columns
        parts = _texts_of_columns(_arrays.tokens("tokens", tokens), texts, lengths)
    places = sum(len(text.tokens) for text in parts)
    target = _Laws("p", p, places)
    own, raw_target, raw_own = (
        None if rows is None else _Laws(name, rows, places)
        for name, rows in (("q", q), ("raw_p", raw_p), ("raw_q", raw_q))
    )
    begin = 0
    for text in parts:
        others = tuple(
            None if rows is None else rows.of(text, begin) for rows in (own, raw_target, raw_own)
        )
        found.read((text.name, text.repeat), text.tokens, target.of(text, begin), others)
        begin += len(text.tokens)
    return _verdict(found, level, plain)


@dataclass(frozen=True)
class _Text:
    name: str
    repeat: int
    prompt: NDArray[np.int64]
    tokens: NDArray[np.int64]


class _Laws:
    """The laws of all tokens of all texts."""

    def __init__(self, name: str, laws: LawsOf, places: int) -> None:
        self.name = name
        self.function = laws if callable(laws) else None
        if self.function is None:
            self.rows, self.tolerance = _arrays.laws(name, laws)
            _arrays.fits(name, self.rows, places, "one for each token")

    def of(self, text: _Text, begin: int) -> tuple[NDArray[np.float64], float]:
        """Those of a text that begins at a place."""
        if self.function is None:
            return self.rows[begin : begin + len(text.tokens)], self.tolerance
        rows, tolerance = _arrays.laws(self.name, self.function(text.prompt, text.tokens))
        _arrays.fits(self.name, rows, len(text.tokens), "one for each token of the text")
        return rows, tolerance


def _texts_of_columns(
    tokens: NDArray[np.int64], texts: Optional[ArrayLike], lengths: Optional[ArrayLike]
) -> list[_Text]:
    places = len(tokens)
    if places == 0:
        raise ValueError("tokens is empty: there is nothing to audit")
    names: list[str] = []
    if texts is not None:
        if lengths is not None:
            raise ValueError("texts and lengths say the same: give one of them")
        ids = np.asarray(texts)
        if ids.ndim != 1:
            raise ValueError(f"texts has the shape {ids.shape}: allowed is one dimension")
        _arrays.fits("texts", ids, places, "one for each token")
        begins = [at for at in range(places) if at == 0 or ids[at] != ids[at - 1]]
        names = [str(ids[at]) for at in begins]
        twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
        if twice is not None:
            raise ValueError(f"texts: {twice} begins twice: the tokens of a text stand together")
        counts = np.diff([*begins, places]).tolist()
    elif lengths is not None:
        counts = _arrays.counts("lengths", lengths, 1, places)
        if sum(counts) != places:
            raise ValueError(f"lengths sum to {sum(counts)}, and there are {places} tokens")
    else:
        counts = [places]
    names = names or [str(number) for number in range(len(counts))]
    parts = np.split(tokens, np.cumsum(counts)[:-1])
    return [_Text(name, 0, np.empty(0, np.int64), part) for name, part in zip(names, parts)]


def _texts_of_tape(source: Union[str, os.PathLike[str]], sampling: Optional[int]) -> list[_Text]:
    name, data = _tape.tape_bytes(source)
    texts, samplings = _core.tape_texts(name, data)
    if sampling is None and len(samplings) > 1:
        known = "; ".join(f"{number}: {words}" for number, words in enumerate(samplings))
        raise ValueError(f"{name} has several sampling settings, so sampling is one of {known}")
    wanted = 0 if sampling is None else sampling
    if not 0 <= wanted < len(samplings):
        raise ValueError(f"sampling is {wanted}: {name} has the numbers 0 to {len(samplings) - 1}")
    each = [
        _Text(prompt, repeat, np.array(before, np.int64), np.array(tokens, np.int64))
        for prompt, repeat, number, before, tokens in texts
        if number == wanted
    ]
    if not each:
        raise ValueError(f"{name} has no text: a log of rounds alone cannot be audited")
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
