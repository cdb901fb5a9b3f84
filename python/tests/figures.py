"""Committed runs, and what figures of them show."""

import csv
import shutil
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
VERIFIERS = ROOT / "results/03-verifiers/2026-11-22-amd-epyc-2c"
LENGTHS = ROOT / "results/01-draft-length/2026-11-22-amd-epyc-2c"
TAPE = ROOT / "results/09-tape/2026-11-25-amd-epyc-2c"


def summary(run, **at):
    """The rows of a summary with these values, as text."""
    with open(run / "summary.csv", newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if at.items() <= row.items()]


def drawn(panel):
    """Per line of a panel: x, values, and the ends of the intervals, as they are drawn."""
    found = {}
    for line in panel.containers:
        data, _, (bars,) = line
        # Where there is no interval, there is nothing.
        ends = [segment[:, 1] for segment in bars.get_segments() if segment.ndim == 2]
        found[line.get_label()] = (*map(np.asarray, data.get_data()), np.array(ends))
    return found


def copied(run, folder, name="run"):
    """A copy of the tables of a run, without its rows."""
    copy = folder / "copies" / name
    copy.mkdir(parents=True)
    for file in ("summary.csv", "manifest.json", "plan.toml", "report.md"):
        shutil.copy(run / file, copy / file)
    return copy


def edited(file, old, new):
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
