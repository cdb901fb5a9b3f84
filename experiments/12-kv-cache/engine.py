"""A model that answers one request at a time, and distances between its logits."""

import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

# A sample is dropped if other work took more than this share of its time.
DISTURBED = 0.05
# The first and the last times of a text are medians of this many tokens.
ENDS = 16


class Engine:
    """`specdec bench --interactive` with some options."""

    def __init__(self, program: Path, options: list[str]) -> None:
        command = [program, "bench", "--interactive", *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.process.stdout.readline()

    def ask(self, request: str) -> dict[str, Any]:
        """Return the answer to a request."""
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def peak_kib(self) -> int:
        """Return the most memory that the process has had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait()


def gaps(exact: np.ndarray, other: np.ndarray) -> tuple[str, str, int]:
    """Return the RMS of the differences of two rows of logits without their means, the
    Kullback-Leibler divergence of their distributions in nats, and whether the best token is
    the same."""
    apart = other - exact
    rms = float(np.sqrt(np.mean((apart - apart.mean()) ** 2)))
    log_p, log_q = (x - np.logaddexp.reduce(x) for x in (exact, other))
    kl = float(np.sum(np.exp(log_p) * (log_p - log_q)))
    return f"{rms:.4g}", f"{kl:.4g}", int(exact.argmax() == other.argmax())


def settled(times: list[float]) -> tuple[float, float]:
    """Return the medians of the first and of the last times."""
    return statistics.median(times[:ENDS]), statistics.median(times[-ENDS:])
