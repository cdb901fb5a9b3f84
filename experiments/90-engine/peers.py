"""The interface that all engines share, and the engines that run as child processes."""

import importlib.metadata
import json
import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

import weights
from weights import Shape

# Tokens in the cache before a timed pass. The first row of a pass is the last token of a
# text of 64 tokens: in decoding, the token that was sampled last and not computed yet.
CACHED = 63
# A sample takes at least this many nanoseconds; short passes are repeated within it.
LEAST = 500_000


class PeerError(Exception):
    """An engine is not available, or does not answer as it should."""


@dataclass(frozen=True)
class Sample:
    """One measurement."""

    micros: float
    # The share of the sample for which threads of the engine waited for a core.
    queue_share: float


class Engine(Protocol):
    """An engine with a model of some shape and dtype."""

    name: str
    version: str
    # Further facts about it: instruction set, kind of cache, ...
    about: dict[str, object]

    def pass_(self, m: int) -> Sample:
        """Times a pass over `m` tokens after the cached ones."""

    def prefill(self, n: int) -> Sample:
        """Times a pass over `n` tokens from an empty cache."""

    def logits(self, m: int) -> np.ndarray:
        """The logits of the last row of a pass over `m` tokens after the cached ones."""

    def rest(self) -> None:
        """Takes the engine's threads off the cores."""

    def close(self) -> None:
        """Frees the model."""


def tokens(first: int, count: int) -> list[int]:
    """The tokens that all engines are given, from position `first` on."""
    return [(i * 7 + 3) % weights.VOCAB for i in range(first, first + count)]


def waited() -> int:
    """Nanoseconds for which the threads of this process have waited for a core so far."""
    total = 0
    for task in os.listdir("/proc/self/task"):
        try:
            text = Path(f"/proc/self/task/{task}/schedstat").read_text()
        except FileNotFoundError:  # a thread that has just ended
            continue
        total += int(text.split()[1])
    return total


class Stopwatch:
    """Times repeated passes within this process, without the code around them."""

    def __init__(self) -> None:
        self._begin = time.perf_counter_ns()
        self._waited = waited()
        self._spent = 0
        self._passes = 0

    def running(self) -> bool:
        """Whether the sample is still too short."""
        return self._spent < LEAST

    def __enter__(self) -> None:
        self._start = time.perf_counter_ns()

    def __exit__(self, *_: object) -> None:
        self._spent += time.perf_counter_ns() - self._start
        self._passes += 1

    def sample(self) -> Sample:
        """The measurement, in microseconds per pass."""
        share = (waited() - self._waited) / (time.perf_counter_ns() - self._begin)
        return Sample(self._spent / self._passes / 1e3, share)


class Child:
    """An engine that answers lines on its standard input with lines of JSON."""

    def __init__(self, name: str, command: list[str], threads: int) -> None:
        self.name = name
        environment = {**os.environ, "RAYON_NUM_THREADS": str(threads)}
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
                env=environment,
            )
        except OSError as error:
            raise PeerError(f"{Path(command[0]).name}: {error.strerror}") from error
        ready = self._answer()
        if not ready.pop("ready", False):
            raise PeerError(f"{name} is not ready: {ready}")
        del ready["name"]  # which may be a path
        self.version = str(ready.pop("version", "unknown"))
        self.about = ready

    def pass_(self, m: int) -> Sample:
        return self._sample(f"pass {m}")

    def prefill(self, n: int) -> Sample:
        return self._sample(f"prefill {n}")

    def read(self) -> Sample:
        """Times reading as many bytes as a token's weights."""
        return self._sample("read")

    def logits(self, m: int) -> np.ndarray:
        return np.array(self._ask(f"logits {m}")["logits"], np.float32)

    def rest(self) -> None:
        """Does nothing: its threads go to sleep by themselves, within a millisecond."""

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.communicate("quit\n")

    def _sample(self, request: str) -> Sample:
        answer = self._ask(request)
        return Sample(float(answer["micros"]), float(answer["queue_share"]))

    def _ask(self, request: str) -> dict[str, object]:
        try:
            self._process.stdin.write(request + "\n")
        except BrokenPipeError as error:
            raise PeerError(f"{self.name} has ended") from error
        answer = self._answer()
        if "error" in answer:
            raise PeerError(f"{self.name}: {answer['error']}")
        return answer

    def _answer(self) -> dict[str, object]:
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(f"{self.name} has ended with status {self._process.wait()}")
        return json.loads(line)


@dataclass(frozen=True)
class Setup:
    """The settings with which engines are opened."""

    work: Path
    specdec: Path
    candle: Path
    threads: int
    # Keys and values in f32, even if an engine stores them in fewer bits by default.
    exact_cache: bool = False


def open_engine(name: str, shape: Shape, dtype: str, setup: Setup) -> Engine:
    """Opens an engine and makes the model files that it needs.

    Raises PeerError if the engine is not available or does not support the dtype.
    """
    folder = weights.folder(shape, setup.work)
    threads = setup.threads
    if name == "specdec":
        command = [str(setup.specdec), "bench", "--target", str(folder), "--dtype", dtype]
        command += ["--threads", str(threads), "--interactive"]
        engine = Child(name, command, threads)
        engine.version = _version_of(setup.specdec)
        return engine
    if name == "candle":
        if dtype == "bf16":
            raise PeerError("its decoders have no bf16 on the CPU")
        quantized = dtype == "q8_0"
        model = weights.gguf_file(shape, dtype, setup.work) if quantized else folder
        kind = "quantized" if quantized else "llama"
        return Child(name, [str(setup.candle), kind, str(model)], threads)
    try:
        if name == "llama.cpp":
            from llamacpp import LlamaCpp

            file = weights.gguf_file(shape, dtype, setup.work)
            return LlamaCpp(file, threads, exact_cache=setup.exact_cache)
        from torchpeer import TorchLlama

        return TorchLlama(folder, dtype, threads)
    except (ImportError, OSError) as error:
        raise PeerError(f"cannot be loaded: {error}") from error


def package_version(package: str) -> str:
    """The version of an installed Python package."""
    return importlib.metadata.version(package)


def _version_of(specdec: Path) -> str:
    printed = subprocess.run([specdec, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"\d\S*", printed.stdout)
    return found.group() if found else "unknown"


ENGINES = ("specdec", "llama.cpp", "candle", "torch")
