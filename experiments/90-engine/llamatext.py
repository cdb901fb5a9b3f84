"""Generates texts in llama.cpp, one token per pass, with llama.cpp's own samplers."""

import ctypes
import time
from collections.abc import Iterator
from pathlib import Path

import llama_cpp
import numpy as np

from common import PeerError
from decoding import Decoded, Entry
from llamacontext import Context

# The positions that the embedded pair was trained for; enough for every prompt and its text.
POSITIONS = 1024


class LlamaText:
    """Plain decoding of a GGUF file with a tokenizer."""

    name = "llama.cpp"

    def __init__(
        self,
        file: Path,
        threads: int,
        *,
        exact_cache: bool = False,
        special_tokens: bool = False,
        past_end: bool = False,
    ) -> None:
        self._context = Context(file, threads, POSITIONS, exact_cache=exact_cache)
        # With special tokens, names of control tokens in a prompt are these tokens.
        self._special_tokens = special_tokens
        # Whether tokens that end a text are tokens like all others.
        self._past_end = past_end
        self.version = self._context.version
        self.about = self._context.about
        self._one = self._context.batch([0], 0, logits=True)

    def tokenize(self, text: str) -> list[int]:
        """The tokens of a prompt, with those that the model has before every text."""
        data = text.encode()
        room = (llama_cpp.llama_token * (len(data) + 1))()
        count = llama_cpp.llama_tokenize(
            self._context.vocab, data, len(data), room, len(room), True, self._special_tokens
        )
        if count < 0:
            raise PeerError("llama.cpp cannot tokenize a text")
        return list(room[:count])

    def decode(self, entry: Entry, prompt: str, most: int, seed: int) -> Decoded:
        """Continues a prompt with at most `most` tokens.

        As in the other engines, the last token of the prompt is part of the first timed pass.
        """
        *cached, last = self.tokenize(prompt)
        self._context.fill(cached)
        sampler = _sampler(entry.temperature, seed)
        tokens: list[int] = []
        start = time.perf_counter_ns()
        while len(tokens) < most:
            last = self._next(last, len(cached) + len(tokens), sampler)
            tokens.append(last)
            if not self._past_end and llama_cpp.llama_vocab_is_eog(self._context.vocab, last):
                break
        spent = time.perf_counter_ns() - start
        llama_cpp.llama_sampler_free(sampler)
        return Decoded(
            prompt_tokens=len(cached) + 1,
            tokens=tokens,
            new_tokens=len(tokens),
            micros=spent / 1e3,
        )

    def choices(self, tokens: list[int]) -> list[int]:
        """The most probable next token after every prefix of a text."""
        self._context.cut(0)
        batch = self._context.batch(tokens, 0, logits=True)
        self._context.decode(batch)
        llama_cpp.llama_batch_free(batch)
        return [int(self._context.logits(row).argmax()) for row in range(len(tokens))]

    def logits_along(self, prompt: list[int], text: list[int]) -> Iterator[np.ndarray]:
        """The logits of every token of a text after a prompt, computed as in `decode`."""
        *cached, last = prompt
        self._context.fill(cached)
        for position, token in enumerate([last, *text[:-1]], start=len(cached)):
            self._put(token, position)
            self._context.decode(self._one)
            yield self._context.logits(0)

    def gap(self, prefix: list[int], first: int, second: int) -> tuple[float, float]:
        """After a prefix, the logit of one token minus that of another, and the first logit."""
        *cached, last = prefix
        self._context.fill(cached)
        self._put(last, len(cached))
        self._context.decode(self._one)
        logits = self._context.logits(0)
        return float(logits[first] - logits[second]), float(logits[first])

    def rest(self) -> None:
        """Pauses the threads until the next pass; otherwise they would keep polling."""
        self._context.rest()

    def close(self) -> None:
        """Frees the model."""
        llama_cpp.llama_batch_free(self._one)
        self._context.close()

    def _next(self, last: int, position: int, sampler: ctypes.c_void_p) -> int:
        self._put(last, position)
        self._context.decode(self._one)
        return llama_cpp.llama_sampler_sample(sampler, self._context.handle, -1)

    def _put(self, token: int, position: int) -> None:
        self._one.token[0] = token
        self._one.pos[0] = position


def _sampler(temperature: int, seed: int) -> ctypes.c_void_p:
    """A sampler for temperature 0 or 1."""
    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    if temperature == 0:
        last = llama_cpp.llama_sampler_init_greedy()
    else:
        last = llama_cpp.llama_sampler_init_dist(seed)
    llama_cpp.llama_sampler_chain_add(chain, last)
    return chain
