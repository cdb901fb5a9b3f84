"""What drafts would accept."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import ArrayLike

from specdec_harness import _arrays, _core, _tape
from specdec_harness._columns import Columns

#: The verifiers whose rules on chains can be forecast.
RULES = ("rejection", "traversal", "token_match", "gumbel")
#: Maximum number of tokens of a draft.
MAX_K = 64


def forecast(
    source: Union[str, os.PathLike[str], ArrayLike],
    log_q: Optional[ArrayLike] = None,
    lengths: Optional[ArrayLike] = None,
    ks: Iterable[int] = range(1, 9),
    *,
    rules: Optional[Iterable[str]] = None,
    max_tokens: Optional[ArrayLike] = None,
    race: Optional[ArrayLike] = None,
) -> Columns:
    """What decoding completions with drafts takes, in expectation over all drafts.

    `forecast(log_p, log_q, lengths)`: the natural logarithms of p and q, after all sampling
    settings, at the N tokens of completions that were drawn from the target; −inf where a
    distribution lacks the token. `lengths` gives the number of tokens of each completion, in
    order; without it there is one completion. Completions with fewer than `max_tokens` ended with
    their last token; without it all were cut. `race` (N,) is the probability that the draft's
    Gumbel race, too, picks the token, given that the target's did; the rule `gumbel` needs it.

    `forecast(tape)`: a tape (`.jsonl`, `.jsonl.gz`) that drafters have scored.

    A row for each rule and K, on tapes for each sampling setting and drafter, too. `rules` names
    verifiers: `rejection`, `traversal` (block verification), `token_match`, `gumbel`; without it,
    all rules that the input covers. Columns: `verifier`, `num_speculative_tokens` (K), `texts`
    (the number of completions), `tokens`, the expected sums `rounds`, `accepted` and `proposed`,
    `block_efficiency` (accepted ÷ rounds + 1), `tokens_per_round`, `acceptance_rate`,
    `conditional_acceptance`, and `survival` (rows, largest K): S(1), S(2), …, NaN beyond K.

    The numbers are those of `specdec forecast`, whose definitions are in docs/tape.md. Raises
    `ValueError` for columns of different lengths, probabilities above 1 and NaN, an unknown rule,
    and malformed tapes.
    """
    asked = _arrays.counts("ks", ks, 1, MAX_K)
    chosen = None if rules is None else [str(rule) for rule in rules]
    if _tape.is_tape(source):
        if any(given is not None for given in (log_q, lengths, max_tokens, race)):
            raise ValueError("a tape holds all columns: give it alone, with ks and rules")
        name, data = _tape.tape_bytes(source)
        found, drafters, samplings = _core.forecast_tape(name, data, asked, chosen or list(RULES))
        named = {
            "sampling": np.array(samplings)[found["sampling"]],
            "drafter": np.array(drafters)[found["drafter"]],
        }
    else:
        if log_q is None:
            raise ValueError("log_q is missing: forecast(log_p, log_q, lengths) or forecast(tape)")
        columns: Any = source
        found = _of_columns(columns, log_q, lengths, asked, chosen, max_tokens, race)
        named = {}
    own = {
        name: np.asarray(column)
        for name, column in found.items()
        if name not in ("sampling", "drafter")
    }
    return Columns({**named, **own})


def _of_columns(
    log_p: ArrayLike,
    log_q: ArrayLike,
    lengths: Optional[ArrayLike],
    ks: list[int],
    rules: Optional[list[str]],
    max_tokens: Optional[ArrayLike],
    race: Optional[ArrayLike],
) -> dict[str, object]:
    target, draft = _arrays.column("log_p", log_p), _arrays.column("log_q", log_q)
    total = len(target)
    if total == 0:
        raise ValueError("log_p is empty: there is nothing to forecast")
    _arrays.fits("log_q", draft, total, "as log_p has")
    raced = None if race is None else _arrays.column("race", race)
    if raced is not None:
        _arrays.fits("race", raced, total, "as log_p has")
        if np.any((raced < 0) | (raced > 1)):
            raise ValueError("race holds numbers that are no probabilities: allowed is 0 to 1")
    tokens = [total] if lengths is None else _arrays.counts("lengths", lengths, 1, total)
    if sum(tokens) != total:
        raise ValueError(f"lengths sum to {sum(tokens)}, and there are {total} tokens")
    limits = tokens
    if max_tokens is not None:
        limits = _arrays.counts("max_tokens", max_tokens, 1, 1 << 24)
        limits = limits * len(tokens) if len(limits) == 1 else limits
        _arrays.fits("max_tokens", limits, len(tokens), "one for each completion")
    every = list(RULES if race is not None else RULES[:3])
    return _core.forecast_columns((target, draft), raced, tokens, limits, ks, rules or every)
