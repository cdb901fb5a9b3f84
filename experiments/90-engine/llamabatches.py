"""Several sequences in llama.cpp, each with a cache of its own."""

from pathlib import Path

import llama_cpp

from common import Sample, Stopwatch, tokens
from llamacontext import Context


class LlamaBatches:
    """A GGUF file in llama.cpp with `cached` tokens in the cache of every sequence."""

    name = "llama.cpp"

    def __init__(self, file: Path, threads: int, cached: int, sequences: int) -> None:
        positions = (cached + 16) * sequences
        self._context = Context(
            file, threads, positions, exact_cache=False, sequences=sequences
        )
        self.version = self._context.version
        self.about = self._context.about
        self._context.fill(tokens(0, cached))
        memory = llama_cpp.llama_get_memory(self._context.handle)
        for sequence in range(1, sequences):
            llama_cpp.llama_memory_seq_cp(memory, 0, sequence, -1, -1)
        self._memory, self._cached = memory, cached
        self._batch = llama_cpp.llama_batch_init(sequences, 0, 1)
        self._batch.n_tokens = sequences
        for i in range(sequences):
            self._batch.token[i] = tokens(cached, 1)[0]
            self._batch.pos[i] = cached
            self._batch.n_seq_id[i] = 1
            self._batch.seq_id[i][0] = i
            self._batch.logits[i] = True

    def pass_(self) -> Sample:
        watch = Stopwatch()
        while watch.running():
            with watch:
                self._context.decode(self._batch)
            for i in range(self._batch.n_tokens):
                llama_cpp.llama_memory_seq_rm(self._memory, i, self._cached, -1)
        return watch.sample()

    def rest(self) -> None:
        self._context.rest()
