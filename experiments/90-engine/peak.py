"""Measures how fast this machine multiplies and adds in registers."""

import re
import subprocess
from pathlib import Path

from common import MODELS, PeerError, Sample

# Multiply-adds whose time is given: 10⁹, each of them two operations.
MULTIPLY_ADDS = 1e9


def measure(specdec: Path, threads: int) -> Sample | None:
    """The time of `MULTIPLY_ADDS` multiply-adds of f32 on all threads together.

    specdec takes several samples and reports the median of the undisturbed ones; None if
    there were too few of them.
    """
    command = [str(specdec), "bench", "--target", str(MODELS / "target"), "--seconds", "1"]
    ended = subprocess.run(
        [*command, "--threads", str(threads)], capture_output=True, text=True, check=False
    )
    found = re.search(r"of the peak of (\d+|-) GFLOP/s", ended.stdout)
    if not found:
        raise PeerError(f"specdec bench did not report a peak: {ended.stderr.strip()}")
    if found[1] == "-":
        return None
    return Sample(2 * MULTIPLY_ADDS / float(found[1]) / 1e3, 0.0)
