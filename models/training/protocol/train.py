"""Trains the drafters of one group in lockstep; can be killed and started again at any time.

The learning rate rises, stays, and falls to zero at the end of each budget. So one trunk at the
constant rate serves all budgets: a branch leaves it where the rate of its budget begins to fall.
A branch has the steps, the windows and the numbers of a run with that budget alone.
"""

import fcntl
import hashlib
import json
import platform
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from checkpoint import save
from evaluate import load_folder
from heads.export import export
from protocol.drafters import DrafterOptimizers, new_drafter
from protocol.flops import per_micro_batch
from protocol.grid import Grid, Group
from protocol.objective import Lessons, Objective, Teacher

SAVE_SECONDS, LOG_STEPS = 60, 64
SHARDS = "train-code", "train-prose", "train-sampled"
ROOT = Path(__file__).resolve().parents[3]


def sha256(path: Path) -> str:
    """Return the digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def commit() -> str:
    """Return the commit of the recipe, with a mark if files differ from it."""
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def processor() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((x.split(": ")[1] for x in lines if x.startswith("model name")), platform.machine())


@dataclass(frozen=True)
class Branch:
    """A budget of some drafters: they leave the trunk where the rate begins to fall."""

    name: str
    drafters: tuple[str, ...]
    steps: int
    leaves: int


class Trainee:
    """One drafter, its optimisers, and the processor time that it has taken."""

    def __init__(self, name: str, objective: Objective, rate: float, compiled: bool):
        self.name, self.head, self.rate = name, objective.head, rate
        self.call = torch.compile(objective) if compiled else objective
        self.optimizers = DrafterOptimizers(self.head, rate)
        self.seconds, self.outputs = 0.0, []

    def state_dict(self) -> dict:
        """Return all that training changes."""
        state = {"model": self.head.state_dict(), "optimizers": self.optimizers.state_dict()}
        return {**state, "seconds": self.seconds, "outputs": self.outputs}

    def load_state_dict(self, state: dict) -> None:
        """Restore it."""
        self.head.load_state_dict(state["model"])
        self.optimizers.load_state_dict(state["optimizers"])
        self.seconds, self.outputs = state["seconds"], list(state["outputs"])


def chosen_rates(grid: Grid, work: Path) -> dict[str, float]:
    """Return for each drafter the rate of the tuning group in which it overlapped most.

    The overlap is that of the last line of the log, over windows that no step had seen.
    """
    found: dict[str, list] = {}
    for group in grid.groups:
        if group.name in grid.tuning:
            rows = map(json.loads, (work / group.name / "log.jsonl").read_text().splitlines())
            last = {row["drafter"]: float(np.mean(row["overlap"])) for row in rows}
            for name, overlap in last.items():
                found.setdefault(name, []).append((overlap, group.rate))
    return {name: max(tried)[1] for name, tried in found.items()}


class GroupRun:
    """The drafters of one group in a folder."""

    def __init__(self, grid: Grid, group: Group, folder: Path, work: Path, pair: Path, compiled: bool):
        self.grid, self.group, self.folder, self.pair, self.work = grid, group, folder, pair, work
        target, shipped = load_folder(pair / "target"), load_folder(pair / "draft")
        shape = grid.context, grid.micro, grid.anchors
        self.lessons = Lessons(work / "shards", "train", group.seed, *shape)
        teacher = Teacher(target, grid.taps)
        with torch.no_grad():
            features, *_ = teacher(self.lessons.lesson(0)[0])
        self.objectives, self.flops = {}, {}
        for name in group.drafters:
            head = new_drafter(name, grid, group, shipped, features)
            objective = Objective(head, teacher, group.loss, group.policy == "on")
            self.objectives[name] = objective
            self.flops[name] = per_micro_batch(objective, self.lessons.lesson(0))
        self.compiled, self.teacher = compiled, torch.compile(teacher) if compiled else teacher
        self.step = 0

    def branches(self) -> list[Branch]:
        """Return the branches in the order in which they leave the trunk."""
        grid, group = self.grid, self.group
        found = [
            Branch(str(tokens), group.drafters, steps, grid.falls_at(steps))
            for tokens in group.budgets
            for steps in [grid.steps(tokens)]
        ]
        if group.equal_flops:
            cost = {name: sum(found.values()) for name, found in self.flops.items()}
            for name in group.drafters:
                steps = round(grid.steps(group.equal_flops) * max(cost.values()) / cost[name])
                found.append(Branch("equal-flops", (name,), steps, grid.falls_at(steps)))
        return sorted(found, key=lambda branch: (branch.leaves, branch.name))

    def run(self) -> None:
        """Train what is not there yet; no other process may do the same."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.train()

    def train(self) -> None:
        """Train every branch that has not ended."""
        names, given = self.group.drafters, self.group.rate
        rates = dict.fromkeys(names, given) if given else chosen_rates(self.grid, self.work)
        self.trainees = {
            name: Trainee(name, objective, rates[name], self.compiled)
            for name, objective in self.objectives.items()
        }
        for branch in self.branches():
            pending = [x for x in branch.drafters if not self.home(x, branch).exists()]
            if not pending:
                continue
            part = self.folder / f"{branch.name}-{'-'.join(branch.drafters)}.pt"
            if not self.restore(part, branch.drafters):
                trunk = self.folder / "trunk.pt"
                if not self.restore(trunk, self.group.drafters):
                    self.save(trunk, self.group.drafters)
                if self.step > branch.leaves:
                    passed = f"has passed step {branch.leaves}, where {branch.name} begins"
                    sys.exit(f"{trunk} {passed}: remove {self.folder} to train all again")
                self.advance(branch.leaves, None, trunk, self.group.drafters)
            self.advance(branch.steps, branch, part, branch.drafters)
            for name in pending:
                self.ship(name, branch)
            part.unlink(missing_ok=True)

    def home(self, name: str, branch: Branch) -> Path:
        """Return the folder of a trained drafter."""
        return self.folder / f"{name}-{branch.name}"

    def restore(self, path: Path, drafters: tuple[str, ...]) -> bool:
        """Load a checkpoint, if it exists."""
        if not path.exists():
            return False
        content = torch.load(path)
        self.step = content["step"]
        for name in drafters:
            self.trainees[name].load_state_dict(content[name])
        return True

    def save(self, path: Path, drafters: tuple[str, ...]) -> None:
        """Write a checkpoint."""
        states = {name: self.trainees[name].state_dict() for name in drafters}
        save(path, {"step": self.step, **states})

    def rate(self, branch: Branch | None) -> float:
        """Return the factor of the learning rate at this step."""
        rising = min(1.0, (self.step + 1) / self.grid.warmup)
        if branch is None or self.step < branch.leaves:
            return rising
        return rising * (branch.steps - self.step) / (branch.steps - branch.leaves)

    def advance(self, until: int, branch: Branch | None, path: Path, drafters) -> None:
        """Train to a step, on the trunk or on a branch, and leave a checkpoint."""
        saved = time.monotonic()
        trainees = [self.trainees[name] for name in drafters]
        while self.step < until:
            self.one_step(trainees, self.rate(branch))
            if self.step % LOG_STEPS == 0 or self.step == until:
                self.log(trainees, branch)
            if time.monotonic() - saved > SAVE_SECONDS:
                self.save(path, drafters)
                saved = time.monotonic()
        self.save(path, drafters)

    def one_step(self, trainees: list[Trainee], rate: float) -> None:
        """Take one optimiser step of every trainee, on the same windows."""
        count = self.grid.windows // self.grid.micro
        for index in range(self.step * count, (self.step + 1) * count):
            lesson = self.lessons.lesson(index)
            start = time.process_time()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                taught = self.teacher(lesson[0])
            shared = time.process_time() - start
            for trainee in trainees:
                start = time.process_time()
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    outputs = trainee.call(lesson, taught)
                (outputs[0] / count).backward()
                trainee.outputs.append(outputs.tolist())
                trainee.seconds += shared + time.process_time() - start
        for trainee in trainees:
            start = time.process_time()
            nn.utils.clip_grad_norm_(trainee.head.parameters(), 1.0)
            trainee.optimizers.step(rate)
            trainee.seconds += time.process_time() - start
        self.step += 1

    def log(self, trainees: list[Trainee], branch: Branch | None) -> None:
        """Append a line for every trainee: its mean KL and overlap by depth since the last."""
        with (self.folder / "log.jsonl").open("a") as file:
            for trainee in trainees:
                means = np.mean(trainee.outputs, axis=0)[1:].reshape(2, -1).round(4).tolist()
                row = {"drafter": trainee.name, "budget": branch and branch.name, "step": self.step}
                row |= {"seconds": round(trainee.seconds, 1), "kl": means[0], "overlap": means[1]}
                print(json.dumps(row), file=file)
                trainee.outputs = []

    def ship(self, name: str, branch: Branch) -> None:
        """Export a trained drafter with the record of its training."""
        home = self.home(name, branch)
        staged = home.with_name(f".{home.name}")
        export(self.trainees[name].head, self.pair, staged)
        record = json.dumps(self.record(name, branch), indent=1)
        (staged / "training.json").write_text(record + "\n")
        staged.rename(home)

    def record(self, name: str, branch: Branch) -> dict:
        """Return what was trained on what."""
        grid, group = self.grid, self.group
        micro = branch.steps * grid.windows // grid.micro
        flops = {part: micro * count for part, count in self.flops[name].items()}
        files = [self.work / "shards" / f"{shard}.bin" for shard in SHARDS]
        batch = {"windows": grid.windows, "context": grid.context, "anchors": grid.anchors}
        head = self.trainees[name].head
        return {
            "format": "specdec-training 1",
            "drafter": name,
            "loss": group.loss,
            "policy": group.policy,
            "start": group.start,
            "seed": group.seed,
            "budget": branch.name,
            "tokens": branch.steps * grid.windows * grid.context,
            "steps": branch.steps,
            "batch": batch,
            "warmup": grid.warmup,
            "decay": grid.decay,
            "rate": self.trainees[name].rate,
            "parameters": sum(p.numel() for p in head.parameters()),
            "flops": flops | {"total": sum(flops.values())},
            "data": {file.name: sha256(file) for file in files},
            "target": sha256(self.pair / "target/model.safetensors"),
            "lent": sha256(self.pair / "draft/model.safetensors") if group.start == "lent" else None,
            "recipe": commit(),
            "torch": torch.__version__,
            "processor": processor(),
            "processor_seconds": round(self.trainees[name].seconds, 1),
        }
