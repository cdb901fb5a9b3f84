"""Runs, tapes and forecasts as rows of settings and metrics, for figures and tables."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from io import StringIO
from itertools import takewhile
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np

from specdec_harness import _core, _results, _tape
from specdec_harness._columns import Columns
from specdec_harness._forecast import RULES
from specdec_harness._results import Run

#: A row: settings and metrics by name; None where one does not apply or has no value.
Row = dict[str, Any]
#: Metrics that rest on times, without the ends of their intervals.
TIMED = (
    "cost_ratio",
    "verify_cost_ratio",
    "tokens_per_second",
    "texts_at_once",
    "ms_per_token",
    "baseline_tokens_per_second",
    "speedup",
    "loop_free_speedup",
    "predicted_speedup",
    "calibrated_speedup",
)
#: Settings on which times depend, and tokens do not.
OF_TIMES = ("machine", "threads")
#: How the reasons begin for which `report.md` calls times invalid, and what a figure says of them.
WITHHELD = {
    "DISTURBED: ": "no verdict: disturbed",
    "Times are those of a virtual clock": "no verdict: times are set",
}
#: Columns that hold text, even if it looks like a number.
TEXT = ("cell", "target", "draft", "params", "run", "prompts", "machine", "tree")
#: Columns of `summary.csv` before its metrics that are no settings.
NOT_SETTINGS = ("cell", "params", "control", "class", "status", "reason")
#: A setting of a method, in either of the forms in which tables have them.
SETTING = re.compile(r"([\w.]+)=([^; ]*)")


@dataclass
class Source:
    """A run, a tape or a forecast."""

    name: str
    rows: list[Row]
    #: The names of the settings that its rows have.
    settings: list[str]
    #: What it is, in words for a caption, without its models and the number of its generations.
    about: list[str]
    #: A sentence for each reason for which its times are not valid.
    invalid: list[str] = field(default_factory=list)


def read(source: Any, ks: Sequence[int], run: Optional[str] = None) -> Source:
    """The rows of a results folder, of a tape (for these K), or of a forecast; `run` names it.

    Raises `FileNotFoundError` and `ValueError` with one sentence that names the file.
    """
    found = _read(source, ks)
    if run is not None:
        found.name = run
        for row in found.rows:
            row["run"] = run
    return found


def _read(source: Any, ks: Sequence[int]) -> Source:
    if isinstance(source, Columns):
        return _of_columns(source)
    path = source.path if isinstance(source, Run) else Path(source)
    if path.is_dir():
        return _of_run(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    return _of_csv(path) if ".csv" in path.suffixes[-2:] else _of_tape(path, ks)


def _of_run(path: Path) -> Source:
    file = _results.file_of(path, "summary.csv")
    if file is None:
        raise FileNotFoundError(f"{path} has no summary.csv: specdec report {path} writes it")
    columns, rows = _csv(file)
    if "generations" not in columns or "drafter" not in columns:
        raise ValueError(f"{file} is not a table of specdec report: it has no column generations")
    run = Run(path, "", superseded=False)
    plan, manifest = run.plan, run.manifest
    sessions = manifest["sessions"]
    device = manifest["models"][0].get("device")
    own = {
        "run": f"{path.resolve().parent.name}/{path.resolve().name}",
        "kind": "measured",
        "prompts": f"{len(plan['prompts'])} prompts ({manifest['prompts_sha256'][:8]})",
        "ignore_eos": str(plan["ignore_eos"]).lower(),
        "machine": device or _distinct(session["cpu_model"] for session in sessions),
    }
    settings = [*own, *_before("generations", columns, NOT_SETTINGS)]
    kept = [row for row in rows if row.get("control") != "true"]
    about = [
        f"{len(plan['prompts'])} prompts",
        f"up to {plan['max_tokens']} tokens each{_ends(plan)}",
        f"seed {plan['seed']}",
        f"specdec {_distinct(map(_build, sessions))}",
        f"{own['machine']} with {_distinct(session['threads'] for session in sessions)} threads",
    ]
    return _source(own, settings, kept, about, _invalid(path))


def _ends(settings: dict[str, Any]) -> str:
    return " (end of text ignored)" if settings["ignore_eos"] else ""


def _build(session: dict[str, Any]) -> str:
    changed = ", changed" if session["git_dirty"] else ""
    return f"{session['specdec']}, commit {session['git_commit'][:12]}{changed}"


def _distinct(values: Iterable[Any]) -> str:
    return " and ".join(dict.fromkeys(map(str, values)))


def _invalid(path: Path) -> list[str]:
    """Why the times of a run are not valid, as its report says."""
    report = path / "report.md"
    if not report.exists():
        return [f"{path} has no report.md, which shows whether its times are valid."]
    lines = report.read_text(encoding="utf-8").splitlines()
    bold = [line[2:-2] for line in lines if line.startswith("**") and line.endswith("**")]
    return [line for line in bold if line.startswith(tuple(WITHHELD))]


def _of_tape(path: Path, ks: Sequence[int]) -> Source:
    name, data = _tape.tape_bytes(path)
    found, _, samplings = _core.forecast_tape(name, data, list(ks), list(RULES))
    whole = data.split(b"\n")[:-1]
    lines = [json.loads(line) for line in whole if not line.startswith(b'{"score"')]
    head = lines[0]["tape"]
    drafters = [line["drafter"] for line in lines if "drafter" in line]
    texts = [line["text"] for line in lines if "text" in line]
    prompts = {json.dumps(text["prompt_tokens"]) for text in texts}
    digest = hashlib.sha256("".join(sorted(prompts)).encode()).hexdigest()
    limits = sorted({text["max_tokens"] for text in texts})
    target = head["target"]
    own = {
        "run": path.name,
        "kind": "forecast",
        "target": target["name"],
        "dtype": target["dtype"],
        "engine": target["engine"],
        "prompts": f"{len(prompts)} prompts ({digest[:8]})",
        "ignore_eos": str(head["ignore_eos"]).lower(),
        "max_tokens": limits[0] if len(limits) == 1 else None,
        "seed": head.get("seed"),
    }
    own = {key: None if value == "" else value for key, value in own.items()}
    rows = []
    for row in _each(found):
        drafter = drafters[row["drafter"]]
        model = drafter.get("model") or {}
        row |= {"temperature": 1.0} | head["samplings"][row["sampling"]] | drafter.get("params", {})
        row |= {"sampling": samplings[row["sampling"]], "length": drafter.get("length", "fixed")}
        row |= {"drafter": drafter["drafter"], "draft": model.get("name")}
        rows.append(row | {"draft_dtype": model.get("dtype")})
    metrics = set(found) - {"drafter", "verifier", "num_speculative_tokens"}
    settings = dict.fromkeys([*own, *(key for row in rows for key in row if key not in metrics)])
    most = " or ".join(map(str, limits))
    about = [f"{len(prompts)} prompts", f"up to {most} tokens each{_ends(head)}"]
    about += [f"seed {own['seed']}"] if own["seed"] is not None else []
    build = re.sub(r"\b([0-9a-f]{12})[0-9a-f]+", r"\1", head["build"])
    about += [f"specdec {build}"] if build else []
    return _source(own, list(settings), rows, about)


def _of_csv(path: Path) -> Source:
    columns, rows = _csv(path)
    if "texts" not in columns or "drafter" not in columns:
        raise ValueError(f"{path} is not a table of specdec forecast: it has no column texts")
    sampling = _before("drafter", columns)
    for row in rows:
        row["sampling"] = str([row[name] for name in sampling])
    prompts = sorted({int(row["prompts"]) for row in rows})
    own = {"run": path.name, "kind": "forecast"}
    settings = [*own, *_before("texts", columns, NOT_SETTINGS)]
    counted = [row | {"prompts": None} for row in rows]
    return _source(own, settings, counted, [f"{' or '.join(map(str, prompts))} prompts"])


def _of_columns(columns: Columns) -> Source:
    own = {"run": "forecast", "kind": "forecast"}
    settings = [*own, *_before("texts", list(columns))]
    return _source(own, settings, _each(columns), [])


def _source(
    own: Row, settings: list[str], rows: list[Row], about: list[str], invalid: Sequence[str] = ()
) -> Source:
    """The rows with what all of them share, and with each setting of a method by its name."""
    named: dict[str, None] = dict.fromkeys(settings)
    for row in rows:
        row |= own
        set_ones = SETTING.findall(row.get("params") or "")
        found = {key: _value(key, value) for key, value in set_ones}
        named |= dict.fromkeys(found)
        row |= found
        if own["kind"] == "forecast":
            chain = row["verifier"] == "rejection" and row.get("tree") is None
            for end in ("", "_lo", "_hi"):
                row["alpha" + end] = row.get("conditional_acceptance" + end) if chain else None
    return Source(own["run"], rows, list(named), about, list(invalid))


def _each(columns: dict[str, Any]) -> list[Row]:
    """The rows of columns, without lists."""
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    flat = {name: array.tolist() for name, array in arrays.items() if array.ndim == 1}
    return [dict(zip(flat, values)) for values in zip(*flat.values())]


def _before(end: str, columns: Iterable[str], without: Sequence[str] = ()) -> list[str]:
    return [name for name in takewhile(lambda name: name != end, columns) if name not in without]


def _csv(file: Path) -> tuple[list[str], list[Row]]:
    """The names of the columns of a CSV file, and its rows."""
    reader = csv.DictReader(StringIO(_results.bytes_of(file).decode()))
    rows = [{name: _value(name, text) for name, text in row.items()} for row in reader]
    return list(reader.fieldnames or []), rows


def _value(name: str, text: str) -> Union[str, float, None]:
    if name in TEXT or text == "":
        return re.sub(_results.GUARD, r"\1", text) or None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
