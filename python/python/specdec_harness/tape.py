"""Writes tapes: completions, and what drafters think of them, from any engine.

A tape (docs/tape.md) holds completions that were drawn from a target, with log p, and for each
drafter log q along them. From it follow the expected rounds and accepted tokens for every K and
every verifier, and nothing else has to be run.

- `write`: a tape that is written line by line, or continued.
- `TapeWriter.score`: a drafter's numbers, as they are.
- `TapeWriter.score_with`: the same from a function that returns logits.
- `TapeWriter.log_probs`: log p of a completion from the logits of the target.
- `prompt_log_probs`: log p and log q from responses of vLLM, SGLang or llama.cpp.

`specdec_harness.adapters` has such functions for models in PyTorch.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Callable, Optional, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdec_harness import _arrays, _core

__all__ = [
    "DraftRows",
    "Q",
    "TapeWriter",
    "TargetRows",
    "each_token",
    "llama_cpp_requests",
    "prompt_log_probs",
    "write",
]

#: Logits of the token after `context`, a draft having begun when there were `start` tokens.
Q = Callable[[NDArray[np.int64], int], ArrayLike]

#: Logits of the drafts of at most k tokens along a completion: for each token of the completion at
#: which a draft may begin, (n, V) rows with n <= k. Or (N, V), the rows of all N tokens of the
#: completion, if q does not depend on where a draft begins.
DraftRows = Callable[[NDArray[np.int64], NDArray[np.int64], int], Iterable[ArrayLike]]
#: The target's logits (N, V) at the N tokens of a completion.
TargetRows = Callable[[NDArray[np.int64], NDArray[np.int64]], ArrayLike]


def write(
    path: str | os.PathLike[str],
    *,
    target: str | Mapping[str, Any],
    samplings: Sequence[Mapping[str, float]] = ({},),
    source: str = "python",
    ignore_eos: bool = False,
    seed: Optional[int] = None,
    append: bool = False,
) -> TapeWriter:
    """Begins a tape; with `append`, continues one that exists.

    `target` is the name of the target, or a mapping with the fields that docs/tape.md lists
    (`vocab`, `dtype`, `engine`, …). `samplings` are the sampling settings of the completions, such
    as `[{"temperature": 1.0}, {"temperature": 0.6, "top_p": 0.95}]`; what a mapping leaves out is
    neutral. `ignore_eos` says that end tokens were treated like any other token.

    Lines are written one by one, and each is checked first. Raises `ValueError` for what a reader
    would refuse, `FileExistsError` without `append`, and `BlockingIOError` if another
    process writes to the file.
    """
    header = {
        "format": 1,
        "source": source,
        "build": "",
        "target": _model(target),
        **({} if seed is None else {"seed": seed}),
        **({"ignore_eos": True} if ignore_eos else {}),
        "samplings": [dict(sampling) for sampling in samplings],
    }
    return TapeWriter(Path(path), json.dumps({"tape": header}), append)


class TapeWriter:
    """A tape that is being written; `write` makes one. Close it, or use it in `with`."""

    def __init__(self, path: Path, first: str, append: bool) -> None:
        exists = append and path.exists()
        if not exists:
            # A header that is refused leaves no file behind.
            self._lines = _core.TapeLines(first)
        self._file: IO[bytes] = open(path, "r+b" if exists else "xb")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if exists:
                data = self._file.read()
                if data[:1] != b"{":
                    raise ValueError(
                        f"{path} is no tape of lines: unpack it before you append to it"
                    )
                self._lines, whole = _core.TapeLines.read(os.fspath(path), data)
                # A crash may have cut the last line.
                self._file.truncate(whole)
                self._file.seek(whole)
            else:
                self._put(first)
        except BaseException:
            self._file.close()
            raise

    def sequence(
        self,
        prompt_tokens: ArrayLike,
        tokens: ArrayLike,
        log_p: Optional[ArrayLike] = None,
        *,
        prompt: str,
        category: str = "",
        repeat: int = 0,
        sampling: int = 0,
        max_tokens: Optional[int] = None,
    ) -> int:
        """Adds a completion (N tokens) that was drawn from the target; returns its number.

        `log_p` (N) holds the natural logarithms of the target's probabilities, after all sampling
        settings. Without them, only greedy drafts can be forecast. `max_tokens` is the limit of the
        completion: one that is shorter was ended by its last token. Without it, the completion
        counts as cut.
        """
        drawn = _arrays.tokens("tokens", tokens).tolist()
        most = len(drawn) if max_tokens is None else max_tokens
        line = {
            "prompt": prompt,
            "category": category,
            "repeat": repeat,
            "sampling": sampling,
            "prompt_tokens": _arrays.tokens("prompt_tokens", prompt_tokens).tolist(),
            "tokens": drawn,
            "max_tokens": most,
            "end": "stop" if len(drawn) < most else "length",
        }
        if log_p is not None:
            line["log_p"] = _logs("log_p", log_p)
            if None in line["log_p"]:
                at = line["log_p"].index(None)
                raise ValueError(
                    f"the target draws token {at} of the completion with probability 0: other "
                    "sampling settings, or another model"
                )
        self._add("text", line)
        return self._lines.counts()[0] - 1

    def drafter(
        self,
        name: str,
        *,
        model: str | Mapping[str, Any] | None = None,
        params: Optional[Mapping[str, Any]] = None,
        most: Optional[int] = None,
    ) -> int:
        """Adds a drafter; returns its number.

        `name` may be that of a drafter of specdec, or any other, such as `eagle3`. `params` are its
        settings; `draft_temperature`, `draft_top_p` and their like apply to `score_with`. `most` is
        the largest K that its scores cover; without it they cover every K.
        """
        line: dict[str, Any] = {"drafter": name}
        if model is not None:
            line["model"] = _model(model)
        if params:
            line["params"] = dict(params)
        if most is not None:
            line["most"] = most
        self._add("drafter", line)
        return self._lines.counts()[1] - 1

    def score(
        self,
        drafter: int,
        sequence: int,
        *,
        log_q: Optional[ArrayLike] = None,
        starts: Optional[Sequence[ArrayLike]] = None,
        greedy: Optional[Sequence[ArrayLike]] = None,
        overlap: Optional[ArrayLike] = None,
        race: Optional[ArrayLike] = None,
        siblings: Optional[Mapping[str, Any]] = None,
    ) -> None:
        """Adds a drafter's score of a completion of N tokens, in one of three forms.

        - `log_q` (N): the natural logarithms of q at the tokens, if q depends on the context alone.
        - `starts` (N drafts): for each token at which a draft may begin, log q of the token and of
          those after it, each given that the draft has followed the completion so far. A draft has
          as many tokens as there are numbers.
        - `greedy` (N drafts): for each token at which a draft may begin, the tokens that are
          proposed there.

        A number after one of −∞ is never reached, and may be anything. `overlap`, `race` and
        `siblings` are those of docs/tape.md.
        """
        if sum(given is not None for given in (log_q, starts, greedy)) != 1:
            raise ValueError("a score has log_q, starts or greedy: give one of them")
        line: dict[str, Any] = {"drafter": drafter, "text": sequence}
        if log_q is not None:
            line["log_q"] = _logs("log_q", log_q)
        if starts is not None:
            line["starts"] = [_start(f"starts[{at}]", draft) for at, draft in enumerate(starts)]
        if greedy is not None:
            _, _, tokens, _ = self._lines.sequence(sequence)
            line["starts"] = [
                _followed(f"greedy[{at}]", draft, tokens[at:]) for at, draft in enumerate(greedy)
            ]
        for name, column in (("overlap", overlap), ("race", race)):
            if column is not None:
                line[name] = _arrays.column(name, column).tolist()
        if siblings is not None:
            line["siblings"] = dict(siblings)
        self._add("score", line)

    def score_with(
        self,
        drafter: int,
        rows: DraftRows,
        k: int,
        sequences: Optional[Iterable[int]] = None,
        *,
        target: Optional[TargetRows] = None,
    ) -> None:
        """Scores completions, all without `sequences`, by a function that returns logits.

        `rows(prompt_tokens, tokens, k)` returns the logits of drafts of at most k tokens
        (`DraftRows`); `each_token` makes such a function of one that returns those of a single
        token. The sampling settings of the completion and of the drafter are applied to them.

        With `target(prompt_tokens, tokens)`, which returns the target's logits, the scores have the
        overlap of p and q, the race and siblings, too. That needs a q that depends on the context
        alone, whose logits are one array (N, V).
        """
        numbers = range(self._lines.counts()[0]) if sequences is None else sequences
        for number in numbers:
            sampling, before, tokens, limits = self._lines.sequence(number)
            prompt = np.array(before, dtype=np.int64)
            completion = np.array(tokens, dtype=np.int64)
            found = rows(prompt, completion, k)
            if isinstance(found, np.ndarray) and found.ndim == 2:
                if target is None:
                    whole = self._logs((sampling, drafter), (prompt, completion), 0, found)
                    self.score(drafter, number, log_q=whole)
                    continue
                both = [_arrays.numbers("logits", own) for own in (target(prompt, completion), found)]
                p, q = (np.ascontiguousarray(own, dtype=np.float64) for own in both)
                self._put(self._lines.add(self._lines.compared((drafter, number), p, q)))
                continue
            if target is not None:
                raise ValueError("target needs a q that depends on the context alone: (N, V) logits")
            starts = []
            for at, draft in enumerate(found):
                if at == len(tokens):
                    raise ValueError(f"there are more drafts than the {at} tokens that begin one")
                log_q = self._logs((sampling, drafter), (prompt, completion), at, draft)
                starts.append(log_q[: limits[at]])
            self.score(drafter, number, starts=starts)

    def log_probs(
        self, prompt_tokens: ArrayLike, tokens: ArrayLike, logits: ArrayLike, *, sampling: int = 0
    ) -> NDArray[np.float64]:
        """log p of a completion of N tokens from the target's logits (N, V), after a sampling setting."""
        prompt = _arrays.tokens("prompt_tokens", prompt_tokens)
        return self._logs((sampling, None), (prompt, _arrays.tokens("tokens", tokens)), 0, logits)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> TapeWriter:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def _logs(
        self,
        settings: tuple[int, Optional[int]],
        known: tuple[NDArray[np.int64], NDArray[np.int64]],
        at: int,
        logits: ArrayLike,
    ) -> NDArray[np.float64]:
        """Logarithms of the probabilities of the tokens from number `at` of the completion on, as
        far as there are logits; −∞ for drafted tokens after its end."""
        prompt, tokens = known
        given = _arrays.numbers("logits", logits)
        if given.ndim != 2:
            raise ValueError(f"logits have the shape {given.shape}: allowed is (tokens, V)")
        rows = np.ascontiguousarray(given[: len(tokens) - at], dtype=np.float64)
        context = np.concatenate([prompt, tokens])
        begin = len(prompt) + at
        found = self._lines.log_probs(settings, rows, (context, len(prompt), begin))
        return np.concatenate([found, np.full(len(given) - len(rows), -np.inf)])

    def _add(self, kind: str, line: Mapping[str, Any]) -> None:
        self._put(self._lines.add(json.dumps({kind: line}, allow_nan=False)))

    def _put(self, line: str) -> None:
        self._file.write(line.encode() + b"\n")
        self._file.flush()


def prompt_log_probs(
    response: Mapping[str, Any] | Sequence[Mapping[str, Any]], tokens: ArrayLike
) -> NDArray[np.float64]:
    """The logarithms of the probabilities of all tokens of a prompt but the first, as a server
    returned them: `prompt_logprobs` of vLLM (`"prompt_logprobs": 0` in the request),
    `input_token_logprobs` of SGLang (`"return_logprob": true, "logprob_start_len": 0`), or a list
    of the responses of llama.cpp to `llama_cpp_requests`.

    Send prompt and completion as the prompt, by their ids, which are the `tokens`. The last N
    numbers are those of a completion of N tokens. Servers return them before sampling settings
    unless they are set up otherwise, so they are log p and log q at temperature 1.
    """
    ids = _arrays.tokens("tokens", tokens).tolist()
    logs = _logs_of_next(response) if isinstance(response, Sequence) else _logs_of_prompt(response)
    _arrays.fits("the response's prompt", logs, len(ids), "the number of tokens")
    found = [log.get(token) for log, token in zip(logs[1:], ids[1:])]
    if None in found:
        at = found.index(None) + 1
        raise ValueError(f"the response has no number for token {at} of the prompt, {ids[at]}")
    column = _arrays.column("logprobs", found)
    # JSON has no −∞: vLLM writes −9999, and llama.cpp the smallest number.
    column[column <= -9999.0] = -np.inf
    return column


def _logs_of_prompt(response: Mapping[str, Any]) -> list[dict[int, float]]:
    """For each token of a prompt, logarithms by token, as vLLM and SGLang return them."""
    choice = (response.get("choices") or [response])[0]
    vllm = choice.get("prompt_logprobs", response.get("prompt_logprobs"))
    sglang = response.get("meta_info", {}).get("input_token_logprobs")
    if vllm is not None:
        return [{int(token): own["logprob"] for token, own in (row or {}).items()} for row in vllm]
    if sglang is not None:
        return [{row[1]: row[0]} for row in sglang]
    raise ValueError(
        "the response has neither prompt_logprobs (vLLM) nor meta_info.input_token_logprobs "
        "(SGLang); of llama.cpp, give a list of responses"
    )


def _logs_of_next(responses: Sequence[Mapping[str, Any]]) -> list[dict[int, float]]:
    """For each token of a prompt, logarithms by token; llama.cpp returns those of the next one."""
    logs: list[dict[int, float]] = [{}]
    for number, response in enumerate(responses):
        drawn = response.get("completion_probabilities") or [{}]
        if "top_logprobs" not in drawn[0]:
            raise ValueError(f"response {number} has no completion_probabilities with top_logprobs")
        logs.append({own["id"]: own["logprob"] for own in drawn[0]["top_logprobs"]})
    return logs


def llama_cpp_requests(tokens: ArrayLike, letter: int) -> Iterator[dict[str, Any]]:
    """The bodies of requests to `/completion` of llama.cpp's server whose responses
    `prompt_log_probs` reads: one for each token of a prompt but the first.

    The server reports the distributions of tokens that it draws, so each request draws one token
    after a prefix. If that were a part of a character, it would draw another one and report that.
    So `letter`, the id of the token of a letter such as "a" (`/tokenize`), is drawn for certain,
    which does not change what is reported.
    """
    ids = _arrays.tokens("tokens", tokens).tolist()
    for end in range(1, len(ids)):
        yield {
            "prompt": ids[:end],
            "n_predict": 1,
            # More than there are tokens: all of them.
            "n_probs": 1 << 30,
            "post_sampling_probs": False,
            "logit_bias": [[letter, 1e4]],
            "temperature": 1.0,
            "samplers": ["temperature"],
            "cache_prompt": True,
        }


def each_token(q: Q) -> DraftRows:
    """The logits of drafts from those of single tokens."""

    def rows(prompt: NDArray[np.int64], tokens: NDArray[np.int64], k: int) -> Iterable[ArrayLike]:
        context = np.concatenate([prompt, tokens])
        for start in range(len(prompt), len(context)):
            ends = range(start, min(start + k, len(context)))
            known = np.stack([np.asarray(q(context[:end], start)) for end in ends])
            # No completion follows the tokens after its end.
            yield np.concatenate([known, np.zeros((k - len(known), known.shape[1]))])

    return rows


def _model(model: str | Mapping[str, Any]) -> dict[str, Any]:
    """A model as a tape has it: what is unknown is empty."""
    names: Mapping[str, Any] = {"name": model} if isinstance(model, str) else model
    texts = ("sha256", "tokenizer_sha256", "engine", "dtype", "device")
    return {**dict.fromkeys(texts, ""), "vocab": 0, **names}


def _logs(name: str, value: ArrayLike) -> list[Optional[float]]:
    """Logarithms as JSON has them: null for −∞."""
    return [None if log == -np.inf else log for log in _arrays.column(name, value).tolist()]


def _start(name: str, log_q: ArrayLike) -> dict[str, Any]:
    """A draft by log q of its tokens, which it follows up to the first that it cannot draw."""
    logs = _arrays.column(name, log_q)
    impossible = np.flatnonzero(logs == -np.inf)
    followed = impossible[0] if len(impossible) > 0 else len(logs)
    return {"n": len(logs), "q": logs[:followed].tolist()}


def _followed(name: str, draft: ArrayLike, tokens: Sequence[int]) -> dict[str, Any]:
    """A proposed draft, which follows the completion as long as its tokens are equal."""
    drafted = _arrays.tokens(name, draft).tolist()
    same = 0
    while same < min(len(drafted), len(tokens)) and drafted[same] == tokens[same]:
        same += 1
    return {"n": len(drafted), "q": [0.0] * same}
