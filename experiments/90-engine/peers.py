"""The interface that all engines share, and the engines that run as child processes."""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

import weights
from common import PeerError, Sample
from weights import Shape


class Engine(Protocol):
    """An engine that has loaded a model."""

    name: str
    version: str
    # Further properties of the engine, such as instruction set and type of cache.
    about: dict[str, object]

    def pass_(self, m: int) -> Sample:
        """Times a pass over `m` tokens after the cached ones."""

    def prefill(self, n: int) -> Sample:
        """Times a pass over `n` tokens from an empty cache."""

    def logits(self, m: int) -> np.ndarray:
        """The logits of the last row of a pass over `m` tokens after the cached ones."""

    def rest(self) -> None:
        """Makes the engine's threads sleep, so that they do not occupy cores."""

    def close(self) -> None:
        """Frees the model."""


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
        del ready["name"]  # may be a path
        self.version = str(ready.pop("version", "unknown"))
        self.about = ready

    def pass_(self, m: int) -> Sample:
        return self._sample(f"pass {m}")

    def prefill(self, n: int) -> Sample:
        return self._sample(f"prefill {n}")

    def read(self) -> Sample:
        """Times reading as many bytes as a pass of one token reads of weights."""
        return self._sample("read")

    def logits(self, m: int) -> np.ndarray:
        return np.array(self._ask(f"logits {m}")["logits"], np.float32)

    def rest(self) -> None:
        """Does nothing: the threads go to sleep by themselves within a millisecond."""

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
    # Keep keys and values in f32, even if the engine's default is a smaller type.
    exact_cache: bool = False


def open_engine(name: str, shape: Shape, dtype: str, setup: Setup) -> Engine:
    """Opens an engine, after writing the model files that it needs.

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


def _version_of(specdec: Path) -> str:
    printed = subprocess.run([specdec, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"\d\S*", printed.stdout)
    return found.group() if found else "unknown"


ENGINES = ("specdec", "llama.cpp", "candle", "torch")
