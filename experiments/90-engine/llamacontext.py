"""A model in llama.cpp, through the C functions that llama-cpp-python exports."""

import ctypes
import re
from pathlib import Path

import llama_cpp
import numpy as np

from common import PeerError, package_version

F32 = 0  # GGML_TYPE_F32
# The most tokens of one call; a longer text is passed in parts.
BATCH = 512


class PoolParams(ctypes.Structure):
    """`struct ggml_threadpool_params` of ggml.h."""

    _fields_ = [
        ("cpumask", ctypes.c_bool * 512),
        ("n_threads", ctypes.c_int),
        ("prio", ctypes.c_int),
        ("poll", ctypes.c_uint32),
        ("strict_cpu", ctypes.c_bool),
        ("paused", ctypes.c_bool),
    ]


@llama_cpp.llama_log_callback
def _drop(_level: int, _text: bytes, _data: object) -> None:
    """Drops a message."""


def silence() -> None:
    """Makes llama.cpp log nothing."""
    llama_cpp.llama_log_set(_drop, None)


class Context:
    """A GGUF file in llama.cpp, with a persistent thread pool like in its own programs.

    Without an attached pool, llama.cpp starts new threads for every pass. With an exact
    cache, keys and values are in f32 and attention has no f16 intermediate results.
    """

    def __init__(
        self,
        file: Path,
        threads: int,
        positions: int,
        *,
        exact_cache: bool,
        flash: bool = True,
        sequences: int = 1,
    ) -> None:
        self.version = package_version("llama-cpp-python")
        silence()
        llama_cpp.llama_backend_init()
        model = llama_cpp.llama_model_default_params()
        model.n_gpu_layers = 0
        model.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE
        self._model = llama_cpp.llama_model_load_from_file(str(file).encode(), model)
        if not self._model:
            raise PeerError(f"llama.cpp cannot load {file.name}")
        flash = flash and not exact_cache
        context = llama_cpp.llama_context_default_params()
        context.n_ctx = positions
        context.n_seq_max = sequences
        context.n_batch = BATCH
        context.n_threads = context.n_threads_batch = threads
        if exact_cache:
            context.type_k = context.type_v = F32
        if not flash:
            context.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.handle = llama_cpp.llama_init_from_model(self._model, context)
        if not self.handle:
            raise PeerError("llama.cpp cannot create a context")
        self._start_pool(threads)
        self._memory = llama_cpp.llama_get_memory(self.handle)
        self.vocab = llama_cpp.llama_model_get_vocab(self._model)
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(self.vocab)
        self.about = {
            "system": llama_cpp.llama_print_system_info().decode().strip(" |"),
            "threads": threads,
            "cache": "f32" if exact_cache else "f16",
            "weights": "read into memory, not mapped",
            "flash_attention": "auto" if flash else "off",
        }

    def batch(self, tokens: list[int], first: int, *, logits: bool) -> llama_cpp.llama_batch:
        """A batch of tokens from position `first`, with the logits of all rows or of none."""
        batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = first + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = logits
        return batch

    def decode(self, batch: llama_cpp.llama_batch) -> None:
        """Runs a pass and waits for its end."""
        status = llama_cpp.llama_decode(self.handle, batch)
        if status != 0:
            raise PeerError(f"llama_decode returned {status}")
        llama_cpp.llama_synchronize(self.handle)

    def fill(self, tokens: list[int]) -> None:
        """Makes the cache hold exactly these tokens."""
        self.cut(0)
        for first in range(0, len(tokens), BATCH):
            batch = self.batch(tokens[first : first + BATCH], first, logits=False)
            self.decode(batch)
            llama_cpp.llama_batch_free(batch)

    def cut(self, length: int) -> None:
        """Truncates the cache to `length` positions."""
        if not llama_cpp.llama_memory_seq_rm(self._memory, 0, length, -1):
            raise PeerError("llama.cpp cannot truncate its cache")

    def logits(self, row: int) -> np.ndarray:
        """A row of logits of the last pass."""
        logits = llama_cpp.llama_get_logits_ith(self.handle, row)
        return np.ctypeslib.as_array(logits, (self.vocab_size,)).copy()

    def rest(self) -> None:
        """Pauses the threads until the next pass; otherwise they would keep polling."""
        self._cpu.ggml_threadpool_pause(self._pool)

    def close(self) -> None:
        """Frees the model."""
        llama_cpp.llama_free(self.handle)
        llama_cpp.llama_model_free(self._model)
        self._cpu.ggml_threadpool_free(self._pool)

    def _start_pool(self, threads: int) -> None:
        base, self._cpu, llama = (
            ctypes.CDLL(_loaded(name)) for name in ("libggml-base", "libggml-cpu", "libllama")
        )
        pool = ctypes.c_void_p
        base.ggml_threadpool_params_default.argtypes = [ctypes.c_int]
        base.ggml_threadpool_params_default.restype = PoolParams
        self._cpu.ggml_threadpool_new.argtypes = [ctypes.POINTER(PoolParams)]
        self._cpu.ggml_threadpool_new.restype = pool
        for function in (self._cpu.ggml_threadpool_pause, self._cpu.ggml_threadpool_free):
            function.argtypes = [pool]
            function.restype = None
        llama.llama_attach_threadpool.argtypes = [ctypes.c_void_p, pool, pool]
        llama.llama_attach_threadpool.restype = None
        params = base.ggml_threadpool_params_default(threads)
        self._pool = self._cpu.ggml_threadpool_new(ctypes.byref(params))
        llama.llama_attach_threadpool(self.handle, self._pool, self._pool)


def _loaded(name: str) -> str:
    """The file from which llama.cpp has loaded a library.

    A package has copies of it under several names. Threads of another copy would not know the
    rearranged weights of 4-bit types and would compute wrong sums.
    """
    found = re.search(rf"/\S*/{name}\.so\S*", Path("/proc/self/maps").read_text())
    if not found:
        raise PeerError(f"llama.cpp has not loaded {name}")
    return found.group()
