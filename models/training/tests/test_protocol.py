"""Trainings of a grid: equal budgets, and the same bits after a stop."""

import fcntl
import json
import shutil
import subprocess
import sys

import pytest

from conftest import TRAINING
from protocol import train
from protocol.evaluate import evaluate
from protocol.grid import DRAFTERS, load
from protocol.train import GroupRun, chosen_rates

STEP = 512  # tokens
SHARED = """
context = 64
windows = 8
micro = 4
anchors = 4
warmup = 2
decay = 0.25
taps = [2, 4, 6]
mask = 159
"""
GROUP = '[[group]]\nname = "{}"\nloss = "{}"\npolicy = "{}"\nstart = "lent"\nseed = 1\n'


class Stopped(Exception):
    """The training was killed."""


def grid_of(folder, tuning=(), **groups):
    """A grid with groups of (loss, policy, further lines)."""
    parts = [SHARED, f"tuning = {list(tuning)}\n"]
    for name, (loss, policy, lines) in groups.items():
        parts.append(GROUP.format(name.replace("_", "-"), loss, policy) + lines)
    path = folder / "grid.toml"
    path.write_text("".join(parts))
    return load(path)


def run(grid, work, pair, shards, name=None):
    """Train a group, the first one if it has no name."""
    if not (work / "shards").exists():
        (work / "shards").symlink_to(shards)
    group = next(g for g in grid.groups if name in (None, g.name))
    GroupRun(grid, group, work / group.name, work, pair, compiled=False).run()


def weights(work, name):
    return (work / name / "model.safetensors").read_bytes()


def last_lines(work):
    """The last overlaps that were logged of every step."""
    rows = map(json.loads, (work / "a/log.jsonl").read_text().splitlines())
    return {(row["drafter"], row["budget"], row["step"]): row["overlap"] for row in rows}


@pytest.mark.parametrize("policy", ["off", "on"])
def test_resumed_and_branched_trainings_have_the_same_bits(policy, tmp_path, pair, shards, monkeypatch):
    """Catches: states that a checkpoint leaves out, windows and rates that depend on the start."""
    budgets = f"rate = 1.0\nbudgets = [{8 * STEP}, {16 * STEP}]\n"
    whole, stopped, alone = (tmp_path / name for name in ("whole", "stopped", "alone"))
    for folder in (whole, stopped, alone):
        folder.mkdir()
    grid = grid_of(tmp_path, a=("kl", policy, budgets))
    run(grid, whole, pair, shards)

    monkeypatch.setattr(train, "SAVE_SECONDS", 0)
    taken, step = [], GroupRun.one_step

    def some_steps(self, *args):
        if len(taken) in (3, 7, 12):
            taken.append(None)
            raise Stopped
        taken.append(self.step)
        step(self, *args)

    monkeypatch.setattr(GroupRun, "one_step", some_steps)
    for _ in range(3):
        with pytest.raises(Stopped):
            run(grid, stopped, pair, shards)
    run(grid, stopped, pair, shards)
    # Trunk to 6, branch to 8, trunk to 12, branch to 16; no step is taken twice.
    assert [x for x in taken if x is not None] == [*range(8), *range(6, 16)]
    assert last_lines(whole) == last_lines(stopped)
    monkeypatch.setattr(GroupRun, "one_step", step)

    budgets = f"rate = 1.0\nbudgets = [{8 * STEP}]\n"
    run(grid_of(tmp_path, a=("kl", policy, budgets)), alone, pair, shards)
    for kind in DRAFTERS:
        for tokens in (8 * STEP, 16 * STEP):
            name = f"a/{kind}-{tokens}"
            assert weights(whole, name) == weights(stopped, name), name
        assert weights(whole, f"a/{kind}-{8 * STEP}") == weights(alone, f"a/{kind}-{8 * STEP}")
        assert weights(whole, f"a/{kind}-{8 * STEP}") != weights(whole, f"a/{kind}-{16 * STEP}")

    # What is there is kept, and a larger budget continues the trunk.
    before = weights(whole, f"a/tap-{8 * STEP}")
    (whole / f"a/tap-{8 * STEP}/kept").touch()
    budgets = f"rate = 1.0\nbudgets = [{8 * STEP}, {16 * STEP}, {24 * STEP}]\n"
    taken.clear()
    taken.extend([-1] * 13)
    monkeypatch.setattr(GroupRun, "one_step", some_steps)
    run(grid_of(tmp_path, a=("kl", policy, budgets)), whole, pair, shards)
    assert taken[13:] == [*range(12, 24)]
    assert (whole / f"a/tap-{8 * STEP}/kept").exists()
    assert before == weights(whole, f"a/tap-{8 * STEP}")

    # The trunk has no way back.
    shutil.rmtree(whole / f"a/tap-{8 * STEP}")
    with pytest.raises(SystemExit, match="trunk.pt has passed step 6"):
        run(grid, whole, pair, shards)


def test_budgets_are_equal_and_recorded(tmp_path, pair, shards):
    """Catches: drafters with more steps, tokens or FLOPs than others; records of another run."""
    lines = f"budgets = [{8 * STEP}]\nequal_flops = {8 * STEP}\n"
    rates = {f"r{n}": ("kl", "off", f"rate = {n}\nbudgets = [{4 * STEP}]\n") for n in (1, 2)}
    grid = grid_of(tmp_path, ["r1", "r2"], **rates, a=("tv", "off", lines), b=("ce", "on", lines))
    for name in ("r1", "r2", "a", "b"):
        run(grid, tmp_path, pair, shards, name)
    chosen = chosen_rates(grid, tmp_path)
    for name in ("a", "b"):
        records = {
            (kind, budget): json.loads((tmp_path / name / f"{kind}-{budget}/training.json").read_text())
            for kind in DRAFTERS
            for budget in (8 * STEP, "equal-flops")
        }
        equal = [records[kind, 8 * STEP] for kind in DRAFTERS]
        assert {(r["tokens"], r["steps"]) for r in equal} == {(8 * STEP, 8)}
        most = max(r["flops"]["total"] for r in equal)
        for kind in DRAFTERS:
            record, step = records[kind, "equal-flops"], records[kind, 8 * STEP]["flops"]["total"] / 8
            assert abs(record["flops"]["total"] - most) <= step / 2
            assert record["tokens"] == record["steps"] * STEP
            assert record["rate"] == chosen[kind] and record["data"].keys() == {
                "train-code.bin",
                "train-prose.bin",
                "train-sampled.bin",
            }
        assert equal[0]["loss"] == ("tv" if name == "a" else "ce")
        assert len({r["target"] for r in equal}) == 1
    evaluate(grid, tmp_path, pair)
    found = json.loads((tmp_path / f"a/dspark-{8 * STEP}/overlap.json").read_text())
    assert len(found["text"]) == len(found["own"]) and len(found["own"][0]) == 8
    assert all(0 <= x <= 1 for window in found["own"] for x in window)


def test_the_rate_is_that_of_the_largest_overlap(tmp_path):
    """Catches: a choice by the first line of a log, or by another drafter's."""
    rates = {f"r{n}": ("kl", "off", f"rate = {n}\nbudgets = [{4 * STEP}]\n") for n in (1, 2)}
    grid = grid_of(tmp_path, ["r1", "r2"], **rates)
    overlaps = {"r1": {"tap": (0.9, 0.2), "draft": (0.1, 0.6)}, "r2": {"tap": (0.1, 0.3), "draft": (0.9, 0.5)}}
    for name, drafters in overlaps.items():
        (tmp_path / name).mkdir()
        rows = [{"drafter": d, "overlap": [x]} for step in (0, 1) for d, v in drafters.items() for x in [v[step]]]
        (tmp_path / name / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert chosen_rates(grid, tmp_path) == {"tap": 2, "draft": 1}


def test_two_processes_do_not_train_one_group(tmp_path, pair, shards):
    """Catches: a second run that writes the same checkpoints."""
    grid = grid_of(tmp_path, a=("kl", "off", f"rate = 1.0\nbudgets = [{4 * STEP}]\n"))
    (tmp_path / "a").mkdir()
    with (tmp_path / "a/lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            run(grid, tmp_path, pair, shards)
    run(grid, tmp_path, pair, shards)


def protocol_command(*words):
    """Run the program."""
    command = [sys.executable, "-B", "-m", "protocol", *map(str, words)]
    return subprocess.run(command, cwd=TRAINING, capture_output=True, text=True)


def test_one_command_trains_a_grid_and_skips_what_is_done(tmp_path, pair, shards):
    """Catches: groups that begin before the rates are chosen, failures that are not reported."""
    rates = {"r1": ("kl", "off", f"rate = 1.0\nbudgets = [{4 * STEP}]\n")}
    grid_of(tmp_path, ["r1"], a=("kl", "off", f"budgets = [{4 * STEP}]\n"), **rates)
    words = "run", tmp_path / "grid.toml", "--work", tmp_path, "--pair", pair, "--no-compile"
    refused = protocol_command(*words)
    assert refused.returncode == 1 and "has no train-code.bin" in refused.stderr
    (tmp_path / "shards").symlink_to(shards)
    done = protocol_command(*words)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["r1", "r1", "a", "a"]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*/*")}
    assert len({path.parent for path in before}) == 8
    assert protocol_command(*words).returncode == 0
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*/*")}
    (tmp_path / "r1/log.jsonl").unlink()
    shutil.rmtree(tmp_path / f"a/tap-{4 * STEP}")
    failed = protocol_command(*words)
    assert failed.returncode == 1 and "a: failed with" in failed.stdout
