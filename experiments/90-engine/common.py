"""The parts that all engine adapters share: tokens, samples, the stopwatch and errors."""

import importlib.metadata
import os
import time
from dataclasses import dataclass
from pathlib import Path

import weights

REPOSITORY = Path(__file__).resolve().parents[2]
# The embedded pair's models.
MODELS = REPOSITORY / "models"
# Context tokens of a pass unless others are asked for. The first row of a pass is the last of
# them, as in decoding, where the token sampled last is not in the cache yet.
CONTEXT = 64
# Tokens of a prefill.
PREFILL = 512
# The minimum duration of a sample in nanoseconds; short passes are repeated within it.
LEAST = 500_000


class PeerError(Exception):
    """An engine is not available, or its answer is invalid."""


@dataclass(frozen=True)
class Sample:
    """One sample."""

    # Microseconds per pass.
    micros: float
    # The time for which threads of the engine waited for a core ÷ the time of the sample.
    queue_share: float


def tokens(first: int, count: int) -> list[int]:
    """`count` tokens from position `first` of the text that all engines are given."""
    return [(i * 7 + 3) % weights.VOCAB for i in range(first, first + count)]


def waited() -> int:
    """The total time for which threads of this process have waited for a core, in ns."""
    total = 0
    for task in os.listdir("/proc/self/task"):
        try:
            text = Path(f"/proc/self/task/{task}/schedstat").read_text()
        except FileNotFoundError:  # the thread has just ended
            continue
        total += int(text.split()[1])
    return total


class Stopwatch:
    """Times repeated passes in this process, excluding the code between them."""

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
        """The sample since the stopwatch was created."""
        share = (waited() - self._waited) / (time.perf_counter_ns() - self._begin)
        return Sample(self._spent / self._passes / 1e3, share)


def package_version(package: str) -> str:
    """The version of an installed Python package."""
    return importlib.metadata.version(package)
