"""Records the machine and the software with which the times were measured."""

import json
import os
import platform
import re
from pathlib import Path

from peers import Engine

# Words of a processor's name that are left out of folder names.
NOISE = {"cpu", "processor", "core", "r", "tm", "unknown"}


def cpu_model() -> str:
    """The processor's name as the kernel reports it."""
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found.group(1).strip() if found else "unknown"


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def slug() -> str:
    """A short name for folders, like `amd-epyc-2c`."""
    words = [word for word in re.split(r"[^a-z0-9]+", cpu_model().lower()) if word]
    words = [word for word in words if word not in NOISE][:4]
    return f"{'-'.join(words) or 'cpu'}-{cores()}c"


def record(file: Path, dtype: str, engines: list[Engine]) -> None:
    """Writes `machine.json`; keeps its entries for other dtypes and engines."""
    known = json.loads(file.read_text()) if file.exists() else {}
    about = known.get("engines", {})
    for engine in engines:
        about.setdefault(engine.name, {})[dtype] = {"version": engine.version, **engine.about}
    contents = {
        "cpu_model": cpu_model(),
        "cores": cores(),
        "system": platform.system(),
        "python": platform.python_version(),
        "engines": about,
    }
    file.write_text(json.dumps(contents, indent=1) + "\n")
