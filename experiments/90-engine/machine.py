"""Records the machine and the software with which the times were measured."""

import datetime
import json
import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from common import MODELS
from peers import Setup, open_specdec

# Words of a processor's name that are left out of folder names.
NOISE = {"cpu", "processor", "core", "r", "tm", "unknown"}


class Described(Protocol):
    """An engine that describes itself."""

    name: str
    version: str
    about: dict[str, object]


def cpu_model() -> str:
    """The processor's name as the kernel reports it."""
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found.group(1).strip() if found else "unknown"


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def slug(isa: str) -> str:
    """A short name for folders, like `amd-epyc-avx2-2c`."""
    words = [word for word in re.split(r"[^a-z0-9]+", cpu_model().lower()) if word]
    words = [word for word in words if word not in NOISE][:4]
    return "-".join([*(words or ["cpu"]), isa, f"{cores()}c"])


def folder(results: Path, isa: str) -> Path:
    """The folder for results of today."""
    today = datetime.datetime.now(datetime.UTC).date()
    return results / f"{today}-{slug(isa)}"


def instruction_set(setup: Setup) -> str:
    """The instruction set that specdec uses here."""
    engine = open_specdec(MODELS / "target", "f32", setup)
    engine.close()
    return str(engine.about["isa"])


def record(file: Path, isa: str, dtype: str = "", engines: Iterable[Described] = ()) -> None:
    """Writes `machine.json`; keeps its entries for other dtypes and engines."""
    known = json.loads(file.read_text()) if file.exists() else {}
    about = known.get("engines", {})
    for engine in engines:
        about.setdefault(engine.name, {})[dtype] = {"version": engine.version, **engine.about}
    contents = {
        "cpu_model": cpu_model(),
        "isa": isa,
        "cores": cores(),
        "system": platform.system(),
        "python": platform.python_version(),
        "engines": about,
    }
    file.write_text(json.dumps(contents, indent=1) + "\n")
