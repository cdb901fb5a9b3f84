"""What all engines share: the tokens, the samples and the stopwatch."""

import importlib.metadata
import os
import time
from dataclasses import dataclass
from pathlib import Path

import weights

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


def package_version(package: str) -> str:
    """The version of an installed Python package."""
    return importlib.metadata.version(package)
