"""Reads a grid: which drafters are trained with which loss, on what, and at which budgets."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

DRAFTERS = ("draft", "tap", "eagle3", "dspark")
CHOICES = {"loss": ("ce", "kl", "tv"), "policy": ("off", "on"), "start": ("lent", "scratch")}


class GridError(Exception):
    """A grid that cannot be run; the message names file, key and allowed values."""


@dataclass(frozen=True)
class Group:
    """Drafters that are trained in lockstep: on the same windows, for the same steps."""

    name: str
    loss: str
    policy: str
    start: str
    seed: int
    budgets: tuple[int, ...]  # training tokens, ascending
    rate: float | None = None  # factor of the learning rates; None: the chosen one
    equal_flops: int = 0  # every drafter also gets the FLOPs of the costliest at these tokens
    drafters: tuple[str, ...] = DRAFTERS


@dataclass(frozen=True)
class Grid:
    """Groups, and what all of them share."""

    context: int
    windows: int  # per step
    micro: int  # windows per micro-batch
    anchors: int  # per window
    warmup: int  # steps
    decay: float  # share of a budget over which the learning rate falls to zero
    taps: tuple[int, ...]
    mask: int  # the token of DSpark's masks
    tuning: tuple[str, ...]  # groups that choose the rates of all groups without one
    groups: tuple[Group, ...]

    def steps(self, tokens: int) -> int:
        """Return the optimiser steps of a budget."""
        return tokens // (self.context * self.windows)

    def falls_at(self, steps: int) -> int:
        """Return the step from which the learning rate of a budget falls."""
        return steps - round(self.decay * steps)


def load(path: Path) -> Grid:
    """Read a grid; anything unknown, missing or impossible is a GridError."""

    def refuse(what: str) -> GridError:
        return GridError(f"{path}: {what}")

    try:
        table = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise refuse(str(error)) from error
    groups = [read_group(entry, refuse) for entry in table.pop("group", [])]
    expected = set(Grid.__dataclass_fields__) - {"groups"}
    if set(table) != expected:
        raise refuse(f"keys differ from {', '.join(sorted(expected))}: {set(table) ^ expected}")
    table |= {key: tuple(table[key]) for key in ("taps", "tuning")}
    grid = Grid(**table, groups=tuple(groups))
    if grid.windows % grid.micro or grid.context % grid.anchors:
        raise refuse("windows must be a multiple of micro, context one of anchors")
    if not 0 < grid.decay < 1:
        raise refuse(f"decay = {grid.decay}; allowed: more than 0 and less than 1")
    names = [group.name for group in groups]
    if not groups or len(set(names)) < len(names):
        raise refuse(f"[[group]] needs entries with names of their own, and has {names}")
    if not set(grid.tuning) <= {group.name for group in groups if group.rate}:
        raise refuse(f"tuning = {list(grid.tuning)}; allowed: names of groups that have a rate")
    if not grid.tuning and any(group.rate is None for group in groups):
        raise refuse("without tuning, every group needs a rate")
    for group in groups:
        for tokens in (*group.budgets, group.equal_flops):
            if tokens % (grid.context * grid.windows):
                step = grid.context * grid.windows
                raise refuse(f"group {group.name}: {tokens} tokens are no multiple of {step}")
    return grid


def read_group(entry: dict, refuse) -> Group:
    """Read one [[group]]."""
    name = entry.get("name", "without a name")
    required = {"name", "loss", "policy", "start", "seed", "budgets"}
    allowed = required | {"rate", "equal_flops", "drafters"}
    if not required <= set(entry) <= allowed:
        raise refuse(f"group {name}: keys must be {', '.join(sorted(allowed))}")
    for key, values in CHOICES.items():
        if entry[key] not in values:
            raise refuse(f"group {name}: {key} = {entry[key]!r}; allowed: {', '.join(values)}")
    drafters = tuple(entry.get("drafters", DRAFTERS))
    if not drafters or not set(drafters) <= set(DRAFTERS):
        raise refuse(f"group {name}: drafters must be among {', '.join(DRAFTERS)}")
    budgets = tuple(entry["budgets"])
    if not budgets or list(budgets) != sorted(set(budgets)) or budgets[0] <= 0:
        raise refuse(f"group {name}: budgets must be tokens in ascending order")
    return Group(**{**entry, "budgets": budgets, "drafters": drafters})
