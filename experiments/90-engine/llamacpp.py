"""Times passes in llama.cpp."""

from pathlib import Path

import llama_cpp
import numpy as np

from common import PREFILL, Sample, Stopwatch, tokens
from llamacontext import Context

# At least as many positions as a context of the default length and a prefill need.
POSITIONS = 1024
# Positions after the cached tokens, for the rows of a pass.
ROOM = 64


class LlamaCpp:
    """A GGUF file with `cached` tokens in the cache."""

    def __init__(
        self,
        name: str,
        file: Path,
        threads: int,
        cached: int,
        *,
        exact_cache: bool,
        flash: bool = True,
    ) -> None:
        self.name = name
        positions = max(POSITIONS, cached + ROOM)
        self._context = Context(file, threads, positions, exact_cache=exact_cache, flash=flash)
        self.version = self._context.version
        self.about = self._context.about
        self._cached = cached
        self._batches: dict[int, llama_cpp.llama_batch] = {}
        self._prefill = self._context.batch(tokens(0, PREFILL), 0, logits=False)
        self._fill()

    def pass_(self, m: int) -> Sample:
        watch = Stopwatch()
        batch = self._batch(m)
        while watch.running():
            with watch:
                self._context.decode(batch)
                self._context.cut(self._cached)
        return watch.sample()

    def prefill(self) -> Sample:
        watch = Stopwatch()
        while watch.running():
            self._context.cut(0)
            with watch:
                self._context.decode(self._prefill)
        sample = watch.sample()
        self._fill()
        return sample

    def logits(self, m: int) -> np.ndarray:
        self._context.decode(self._batch(m))
        logits = self._context.logits(m - 1)
        self._context.cut(self._cached)
        return logits

    def rest(self) -> None:
        """Pauses the threads until the next pass; otherwise they would keep polling."""
        self._context.rest()

    def close(self) -> None:
        for batch in [*self._batches.values(), self._prefill]:
            llama_cpp.llama_batch_free(batch)
        self._context.close()

    def _batch(self, m: int) -> llama_cpp.llama_batch:
        if m not in self._batches:
            rows = tokens(self._cached, m)
            self._batches[m] = self._context.batch(rows, self._cached, logits=True)
        return self._batches[m]

    def _fill(self) -> None:
        self._context.fill(tokens(0, self._cached))
