"""What all engines need: arms, jobs, files that a cut run continues, processes and venvs.

It uses the standard library alone, because it is also imported inside the engines' own venvs.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TARGET, DRAFT = (ROOT / "models" / name for name in ("target", "draft"))
# Tokens of a draft, where the engine takes a number.
MOST = 4
THREADS = 1


@dataclass(frozen=True)
class Sampling:
    """0 means off for top_k and min_p, 1 for top_p."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0


@dataclass(frozen=True)
class Arm:
    name: str
    engine: str
    version: str
    speculation: str  # none, draft or lookup
    sampling: Sampling = Sampling()
    defaults: bool = False  # Leave the sampling settings to the engine, whose defaults these are.


@dataclass(frozen=True)
class Job:
    """A text to be written. No two jobs have the same seed."""

    prompt: str
    prompt_ids: list[int]
    seed: int
    max_tokens: int


class Failed(Exception):
    """An engine cannot be installed or run; the message says why."""


class Texts:
    """The file of an arm, to which texts are added line by line."""

    def __init__(self, file: Path, sampling: Sampling) -> None:
        self._file, self._sampling, self._lock = file, sampling, threading.Lock()
        self.tokens, self._done = 0, set()
        if file.exists():
            # A line that a cut run left unfinished is dropped.
            whole = [line for line in file.read_text().splitlines(True) if line.endswith("\n")]
            file.write_text("".join(whole))
            for text in map(json.loads, whole):
                self.tokens += len(text["output_ids"])
                self._done.add((text["prompt"], text["seed"]))

    def missing(self, jobs: list[Job]) -> list[Job]:
        return [job for job in jobs if (job.prompt, job.seed) not in self._done]

    def add(
        self,
        job: Job,
        output_ids: list[int],
        passes: int | None = None,
        accepted: list[int] | None = None,
    ) -> None:
        """Writes a text; `accepted` has one entry for each of `passes` that drafts."""
        stopped = len(output_ids) < job.max_tokens
        text = {
            "prompt": job.prompt,
            "prompt_ids": job.prompt_ids,
            "output_ids": output_ids,
            "sampling": asdict(self._sampling),
            "seed": job.seed,
            "finish": "stop" if stopped else "length",
        }
        if accepted is not None:
            text["accepted"] = accepted
        if passes is not None:
            text["passes"] = passes
        with self._lock, self._file.open("a") as out:
            out.write(json.dumps(text) + "\n")
            self.tokens += len(output_ids)


def read_request(file: str) -> tuple[Arm, list[Job], Texts, Path]:
    """Arm, jobs, texts and work folder that `run_in_venv` wrote down."""
    request = json.loads(Path(file).read_text())
    arm = Arm(**request["arm"] | {"sampling": Sampling(**request["arm"]["sampling"])})
    texts = Texts(Path(request["out"]), arm.sampling)
    return arm, texts.missing([Job(**job) for job in request["jobs"]]), texts, Path(request["work"])


def run_in_venv(
    python: Path, script: str, arm: Arm, jobs: list[Job], out: Path, work: Path
) -> None:
    """Runs an engine's own script, which adds the texts to `out`."""
    request = work / f"{arm.name}.request.json"
    content = {"arm": asdict(arm), "jobs": [asdict(job) for job in jobs]}
    request.write_text(json.dumps(content | {"out": str(out), "work": str(work)}))
    with process([str(python), script, str(request)], work / f"{arm.name}.log") as running:
        if running.wait() != 0:
            raise Failed(tail(work / f"{arm.name}.log"))


def environment() -> dict[str, str]:
    threads = {"OMP_NUM_THREADS": str(THREADS), "HF_HUB_OFFLINE": "1"}
    return os.environ | threads | {"TOKENIZERS_PARALLELISM": "false"}


@contextlib.contextmanager
def process(
    command: list[str], log: Path, more: dict[str, str] | None = None
) -> Iterator[subprocess.Popen]:
    """A process in a group of its own and at the lowest priority, which ends with the block."""
    with log.open("w") as out:
        running = subprocess.Popen(
            ["nice", "-n", "19", *command],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment() | (more or {}),
            start_new_session=True,
        )
        with contextlib.suppress(OSError):
            Path(f"/proc/{running.pid}/autogroup").write_text("19")
        try:
            yield running
        finally:
            for sent in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(running.pid, sent)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(20)


def tail(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def call(command: list[str | Path], cwd: Path | None = None) -> None:
    """Runs a step of an installation."""
    done = subprocess.run(
        ["nice", "-n", "19", *map(str, command)], cwd=cwd, capture_output=True, text=True
    )
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise Failed(f"{Path(command[0]).name} {' '.join(map(str, command[1:4]))} …: {last}")


def venv(work: Path, name: str, steps: list[list[str]]) -> Path:
    """The Python of a venv in which `pip install` has run with the arguments of each step."""
    folder = work / "venvs" / name
    python, done = folder / "bin/python", folder / "installed"
    if not done.exists():
        call([sys.executable, "-m", "venv", folder])
        for step in steps:
            call([python, "-m", "pip", "install", "-q", *step])
        done.touch()
    return python
