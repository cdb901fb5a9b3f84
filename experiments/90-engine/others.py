"""Measures how much other processes run while a text is generated."""

import os
import time
from pathlib import Path


class Watch:
    """Watches from its creation on."""

    def __init__(self) -> None:
        self._begin = time.perf_counter_ns()
        self._ran = _ran()

    def share(self) -> float:
        """The time for which other processes have run ÷ the time of one core.

        Processes that began and ended meanwhile do not count, so neither do our own children.
        """
        wall = time.perf_counter_ns() - self._begin
        before, after = self._ran, _ran()
        return sum(ran - before.get(task, 0) for task, ran in after.items()) / wall


def _ran() -> dict[str, int]:
    """The time for which every thread of other processes has run so far, in ns."""
    ran: dict[str, int] = {}
    for process in os.listdir("/proc"):
        if not process.isdecimal() or int(process) == os.getpid():
            continue
        try:
            for task in os.listdir(f"/proc/{process}/task"):
                text = Path(f"/proc/{process}/task/{task}/schedstat").read_text()
                ran[task] = int(text.split()[0])
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
    return ran
