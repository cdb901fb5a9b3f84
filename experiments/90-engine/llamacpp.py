"""Runs llama.cpp through the C functions that llama-cpp-python exports."""

import ctypes
from pathlib import Path

import llama_cpp
import numpy as np

from common import CACHED, PeerError, Sample, Stopwatch, package_version, tokens

POSITIONS = 1024
F32 = 0  # GGML_TYPE_F32


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
def _silent(_level: int, _text: bytes, _data: object) -> None:
    """Drops the messages that llama.cpp logs while it loads."""


class LlamaCpp:
    """A GGUF file in llama.cpp, with a persistent thread pool like in its own programs.

    Without an attached pool, llama.cpp starts new threads for every pass. With an exact
    cache, keys and values are in f32 and attention has no f16 intermediate results.
    """

    name = "llama.cpp"

    def __init__(self, file: Path, threads: int, *, exact_cache: bool) -> None:
        self.version = package_version("llama-cpp-python")
        llama_cpp.llama_log_set(_silent, None)
        llama_cpp.llama_backend_init()
        model = llama_cpp.llama_model_default_params()
        model.n_gpu_layers = 0
        model.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE
        self._model = llama_cpp.llama_model_load_from_file(str(file).encode(), model)
        if not self._model:
            raise PeerError(f"llama.cpp cannot load {file.name}")
        context = llama_cpp.llama_context_default_params()
        context.n_ctx = context.n_batch = POSITIONS
        context.n_threads = context.n_threads_batch = threads
        if exact_cache:
            context.type_k = context.type_v = F32
            context.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._context = llama_cpp.llama_init_from_model(self._model, context)
        if not self._context:
            raise PeerError("llama.cpp cannot create a context")
        self._start_pool(threads)
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self._model))
        self.about = {
            "system": llama_cpp.llama_print_system_info().decode().strip(" |"),
            "threads": threads,
            "cache": "f32" if exact_cache else "f16",
            "weights": "read into memory, not mapped",
            "flash_attention": "off" if exact_cache else "auto",
        }
        self._batches: dict[tuple[int, int, bool], llama_cpp.llama_batch] = {}
        self._fill()

    def pass_(self, m: int) -> Sample:
        watch = Stopwatch()
        batch = self._batch(CACHED, m, logits=True)
        while watch.running():
            with watch:
                self._decode(batch)
                self._cut(CACHED)
        return watch.sample()

    def prefill(self, n: int) -> Sample:
        batch = self._batch(0, n, logits=False)
        watch = Stopwatch()
        while watch.running():
            self._cut(0)
            with watch:
                self._decode(batch)
        sample = watch.sample()
        self._fill()
        return sample

    def logits(self, m: int) -> np.ndarray:
        self._decode(self._batch(CACHED, m, logits=True))
        row = llama_cpp.llama_get_logits_ith(self._context, m - 1)
        logits = np.ctypeslib.as_array(row, (self._vocab,)).copy()
        self._cut(CACHED)
        return logits

    def rest(self) -> None:
        """Pauses the threads until the next pass; otherwise they would keep polling."""
        self._cpu.ggml_threadpool_pause(self._pool)

    def close(self) -> None:
        for batch in self._batches.values():
            llama_cpp.llama_batch_free(batch)
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)
        self._cpu.ggml_threadpool_free(self._pool)

    def _start_pool(self, threads: int) -> None:
        library = Path(llama_cpp.__file__).parent / "lib"
        base = ctypes.CDLL(str(library / "libggml-base.so"))
        self._cpu = ctypes.CDLL(str(library / "libggml-cpu.so"))
        llama = ctypes.CDLL(str(library / "libllama.so"))
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
        llama.llama_attach_threadpool(self._context, self._pool, self._pool)

    def _batch(self, first: int, count: int, *, logits: bool) -> llama_cpp.llama_batch:
        key = first, count, logits
        if key not in self._batches:
            batch = llama_cpp.llama_batch_init(count, 0, 1)
            batch.n_tokens = count
            for i, token in enumerate(tokens(first, count)):
                batch.token[i] = token
                batch.pos[i] = first + i
                batch.n_seq_id[i] = 1
                batch.seq_id[i][0] = 0
                batch.logits[i] = logits
            self._batches[key] = batch
        return self._batches[key]

    def _decode(self, batch: llama_cpp.llama_batch) -> None:
        status = llama_cpp.llama_decode(self._context, batch)
        if status != 0:
            raise PeerError(f"llama_decode returned {status}")
        llama_cpp.llama_synchronize(self._context)

    def _cut(self, length: int) -> None:
        """Truncates the cache to `length` positions."""
        if not llama_cpp.llama_memory_seq_rm(self._memory, 0, length, -1):
            raise PeerError("llama.cpp cannot truncate its cache")

    def _fill(self) -> None:
        self._cut(0)
        self._decode(self._batch(0, CACHED, logits=False))
