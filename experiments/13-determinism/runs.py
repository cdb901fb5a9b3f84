"""The runs of this experiment: which they are, how they are started, and what texts they made."""

import csv
import json
import os
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
FASTEST = "avx512"
# What the program says of an instruction set that the processor lacks.
LACKING = "this processor has"


@dataclass
class Run:
    """A run of `specdec run`: one engine with one setting."""

    name: str
    file: str
    limit: int  # Number of prompts; 0 is all.
    options: dict[str, object] = field(default_factory=dict)
    isa: str = FASTEST


# `methods` and `f32` are the references on the native engine, `candle` is that on candle.
RUNS = [
    Run("q8-methods", "experiment.toml", 0),
    Run("q8-threads-1", "settings.toml", 0, {"dtype": "q8_0", "threads": 1}),
    Run("q8-avx2", "settings.toml", 0, {"dtype": "q8_0"}, "avx2"),
    Run("q8-avxvnni", "settings.toml", 500, {"dtype": "q8_0"}, "avxvnni"),
    Run("q8-portable", "settings.toml", 4, {"dtype": "q8_0"}, "portable"),
    Run("q8-no-cache", "settings.toml", 30, {"dtype": "q8_0", "kv_cache": "false"}),
    Run("q8-batch-8", "settings.toml", 0, {"dtype": "q8_0", "sweep.batch": 8}),
    Run("q8-batch-25", "settings.toml", 0, {"dtype": "q8_0", "sweep.batch": 25}),
    Run("f32", "settings.toml", 150),
    Run("f32-threads-1", "settings.toml", 150, {"threads": 1}),
    Run("f32-avx2", "settings.toml", 150, {}, "avx2"),
    Run("f32-batch-25", "settings.toml", 150, {"sweep.batch": 25}),
    Run("candle", "settings.toml", 150, {"engine": "candle"}),
    Run("candle-threads-1", "settings.toml", 150, {"engine": "candle", "threads": 1}),
    Run("candle-batch-25", "settings.toml", 150, {"engine": "candle", "sweep.batch": 25}),
]


@dataclass(frozen=True)
class Method:
    """What a cell of a run does."""

    temperature: float
    drafter: str
    verifier: str
    k: int

    def __str__(self) -> str:
        verifier = f" + {self.verifier}" if self.temperature else ""
        return "plain" if self.drafter == "none" else f"{self.drafter}{verifier}, K = {self.k}"


@dataclass
class Texts:
    """The tokens of all texts of a run, and where those of class P leave plain decoding."""

    tokens: dict[tuple[Method, str], list[int]]
    from_plain: dict[tuple[Method, str], int | None]

    def of(self, method: Method) -> dict[str, list[int]]:
        """The texts of one method by prompt."""
        return {prompt: text for (own, prompt), text in self.tokens.items() if own == method}


def execute(run: Run, specdec: Path, work: Path) -> bool:
    """Starts a run, unless the work folder has it already; false if the processor cannot."""
    out = work / run.name
    if list(out.glob("*/*/report.md")):
        return True
    options = dict(run.options)
    if run.limit:
        options["prompts_limit"] = run.limit
    command = [specdec, "run", HERE / run.file, "--out", out]
    for key, value in options.items():
        command += ["--set", f"{key}={value}"]
    print(f"run {run.name}", flush=True)
    environment = os.environ | {"SPECDEC_ISA": run.isa}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode and LACKING in done.stderr:
        print(f"skipped: this processor lacks {run.isa}", flush=True)
        return False
    if done.returncode:
        raise SystemExit(f"{run.name}: {done.stderr}")
    return True


def folder(run: Run, work: Path) -> Path:
    """The results folder of a run."""
    (report,) = (work / run.name).glob("*/*/report.md")
    return report.parent


def methods(results: Path) -> dict[str, Method]:
    """The cells of a run by their id."""
    plan = tomllib.loads((results / "plan.toml").read_text(encoding="utf-8"))
    found = {}
    for cell in plan["cells"]:
        temperature = cell["sampling"]["temperature"]
        verifier, k = cell["verifier"], cell["num_speculative_tokens"]
        found[cell["id"]] = Method(temperature, cell["drafter"], verifier, k)
    return found


def texts(run: Run, work: Path) -> Texts:
    """Reads the texts of a run."""
    results = folder(run, work)
    cells = methods(results)
    found = Texts({}, {})
    with (results / "generations.jsonl").open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            found.tokens[cells[row["cell"]], row["prompt"]] = row["tokens"]
    with (results / "generations.csv").open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            at = row["first_divergence"]
            found.from_plain[cells[row["cell"]], row["prompt"]] = int(at) if at else None
    return found


def facts(run: Run, work: Path) -> dict[str, object]:
    """What the manifest of a run says about the machine and the program."""
    manifest = json.loads((folder(run, work) / "manifest.json").read_text(encoding="utf-8"))
    session = manifest["sessions"][0]
    names = ["cpu_model", "cores", "isa", "threads", "specdec", "git_commit", "git_dirty", "rustc"]
    # For each model: from which number of rows a pass uses how many threads.
    passes = {"threads_by_rows": session["calibration"]["threads"]}
    return {name: session[name] for name in names} | passes | {"models": manifest["models"]}
