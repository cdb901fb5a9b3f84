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
from common import CONTEXT, PREFILL, PeerError, Sample
from ggufs import gguf_file
from weights import Shape


class Engine(Protocol):
    """An engine that has loaded a model."""

    name: str
    version: str
    # Further properties of the engine, such as instruction set and type of cache.
    about: dict[str, object]

    def pass_(self, m: int) -> Sample:
        """Times a pass over `m` tokens after the cached ones."""

    def prefill(self) -> Sample:
        """Times a pass over `PREFILL` tokens from an empty cache."""

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

    def pass_of(self, request: str) -> Sample:
        """Times a pass in the words of the engine."""
        return self._sample(request)

    def prefill(self) -> Sample:
        return self._sample(f"prefill {PREFILL}")

    def read(self) -> Sample:
        """Times reading as many bytes as a pass of one token reads of weights."""
        return self._sample("read")

    def logits(self, m: int) -> np.ndarray:
        return np.array(self._ask(f"logits {m}")["logits"], np.float32)

    def logits_after(self, text: list[int]) -> np.ndarray:
        """The logits after given tokens; those shared with the last call are not computed again."""
        request = " ".join(map(str, ["logits-after", *text]))
        return np.array(self._ask(request)["logits"], np.float32)

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
    # Context tokens of a pass, including its first row.
    context: int = CONTEXT
    # Keep keys and values in f32, even if the engine's default is a smaller type.
    exact_cache: bool = False


@dataclass(frozen=True)
class Variant:
    """A further way to run llama.cpp, which is timed as an engine of its own."""

    # The dtype of its weights, if specdec does not have it; it then takes turns with q8_0.
    dtype: str | None = None
    flash: bool = True


OURS = "specdec"
VARIANTS = {
    "llama.cpp": Variant(),
    "llama.cpp-fa-off": Variant(flash=False),
    "llama.cpp-q4_0": Variant(dtype="q4_0"),
    "llama.cpp-q4_k_m": Variant(dtype="q4_k_m"),
}
ENGINES = (OURS, *VARIANTS, "candle", "torch")


def open_engine(name: str, shape: Shape, dtype: str, setup: Setup) -> Engine:
    """Opens an engine, after writing the model files that it needs.

    Raises PeerError if the engine is not available or does not support the dtype.
    """
    folder = weights.folder(shape, setup.work)
    if name == OURS:
        return open_specdec(folder, dtype, setup)
    if name == "candle":
        return _open_candle(folder, dtype, setup)
    try:
        if name in VARIANTS:
            return _open_llama_cpp(name, folder, dtype, setup)
        from torchpeer import TorchLlama

        return TorchLlama(folder, dtype, setup.threads, setup.context - 1)
    except (ImportError, OSError) as error:
        raise PeerError(f"cannot be loaded: {error}") from error


def open_specdec(folder: Path, dtype: str, setup: Setup) -> Child:
    """Opens specdec's engine with a model."""
    command = [str(setup.specdec), "bench", "--target", str(folder), "--dtype", dtype]
    command += ["--context", str(setup.context), "--threads", str(setup.threads), "--interactive"]
    engine = Child(OURS, command, setup.threads)
    engine.version = version_of(setup.specdec)
    return engine


def version_of(specdec: Path) -> str:
    """The version that specdec reports."""
    printed = subprocess.run([specdec, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"\d\S*", printed.stdout)
    return found.group() if found else "unknown"


def _open_candle(folder: Path, dtype: str, setup: Setup) -> Child:
    if dtype == "bf16":
        raise PeerError("its decoders have no bf16 on the CPU")
    if setup.context != CONTEXT:
        raise PeerError(f"it is only timed after {CONTEXT} tokens")
    quantized = dtype == "q8_0"
    model = gguf_file(folder, dtype, setup.work) if quantized else folder
    kind = "quantized" if quantized else "llama"
    return Child("candle", [str(setup.candle), kind, str(model)], setup.threads)


def _open_llama_cpp(name: str, folder: Path, dtype: str, setup: Setup) -> Engine:
    from llamacpp import LlamaCpp

    variant = VARIANTS[name]
    if variant.dtype and dtype != "q8_0":
        raise PeerError("it takes turns with q8_0 only")
    file = gguf_file(folder, variant.dtype or dtype, setup.work)
    cached, exact = setup.context - 1, setup.exact_cache
    return LlamaCpp(name, file, setup.threads, cached, exact_cache=exact, flash=variant.flash)
