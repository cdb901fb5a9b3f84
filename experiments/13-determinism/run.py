"""Counts the texts that change with the machine's settings, the drafter and the engine.

    cargo build --release
    python experiments/13-determinism/run.py

It needs Python 3.11 or newer, and matplotlib for the figure.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import argparse
import csv
import datetime
import functools
import gzip
import hashlib
import io
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass

import logits
import runs
from figure import draw
from runs import HERE, REPOSITORY, RUNS, Method, Texts

BY_NAME = {run.name: run for run in RUNS}
# The runs with which others of the same engine and type are compared.
REFERENCES = {"q8": "q8-methods", "f32": "f32", "candle": "candle"}
# The token before every text.
BEGIN = [0]
ENGINES = {"q8": "native q8_0", "f32": "native f32", "candle": "candle f32"}
# Tokens of a pass, where prompts are read in several.
CHUNK = 16
# Plain decoding.
PLAIN = Method(0.0, "none", "rejection", 0)
SAMPLED = Method(0.8, "none", "rejection", 0)


@dataclass
class Row:
    """A completion next to that of the same request in the reference."""

    comparison: str  # What differs: drafter, setting, engine or weights.
    engine: str
    variant: str
    strategy: str
    method: str
    prompt: str
    sha256: str  # Of the text's tokens.
    first_difference: int | None  # The token at which the two texts part.
    gap: float | None = None  # Greedy: between the reference's two largest logits there.


def first(known: list[int], got: list[int]) -> int | None:
    """The first token at which two texts differ."""
    assert len(known) == len(got)
    pairs = enumerate(zip(known, got, strict=True))
    return next((at for at, (old, new) in pairs if old != new), None)


def row(labels: tuple[str, str, str], method: Method, prompt: str, text: list[int]) -> Row:
    strategy = "seeded" if method.temperature else "greedy"
    digest = hashlib.sha256(" ".join(map(str, text)).encode()).hexdigest()[:16]
    return Row(*labels, strategy, str(method), prompt, digest, None)


def by_drafter(engine: str, found: Texts) -> list[Row]:
    """Every completion next to that of plain decoding, with the noise of the same verifier."""
    table = []
    for (method, prompt), text in found.tokens.items():
        if method.drafter == "none":
            continue
        line = row(("drafter", engine, str(method)), method, prompt, text)
        if method.verifier == "gumbel":
            # specdec makes the text of plain decoding itself and compares it.
            line.first_difference = found.from_plain[method, prompt]
        else:
            plain = SAMPLED if method.temperature else PLAIN
            line.first_difference = first(found.tokens[plain, prompt], text)
        table.append(line)
    return table


def by_run(labels: tuple[str, str, str], known: Texts, found: Texts) -> list[Row]:
    """Every completion of a run next to that of the same method in another run, if it has one."""
    table = []
    for (method, prompt), text in found.tokens.items():
        if (method, prompt) in known.tokens:
            line = row(labels, method, prompt, text)
            line.first_difference = first(known.tokens[method, prompt], text)
            table.append(line)
    return table


def compared(read: Callable[[str], Texts]) -> list[Row]:
    """All comparisons of texts."""
    table = []
    for kind, reference in REFERENCES.items():
        known = read(reference)
        table += by_drafter(ENGINES[kind], known)
        for run in RUNS:
            if run.name.startswith(f"{kind}-") and run.name != reference:
                labels = ("setting", ENGINES[kind], run.name.removeprefix(f"{kind}-"))
                table += by_run(labels, known, read(run.name))
    native = read("f32")
    table += by_run(("engine", "candle f32", "instead of native"), native, read("candle"))
    table += by_run(("weights", "native q8_0", "instead of f32"), native, read("q8-methods"))
    return table


def in_chunks(specdec: Path, read: Callable[[str], Texts], ids: dict[str, list[int]]) -> list[Row]:
    """Greedy texts whose prompts were read in chunks, which `run` has no option for."""
    table = []
    for kind, reference in REFERENCES.items():
        engine, _ = logits.SETTINGS[ENGINES[kind]]
        known = read(reference).of(PLAIN)
        prompts = {prompt: ids[prompt] for prompt in known}
        got = logits.greedy(specdec, engine, prompts, CHUNK, len(next(iter(known.values()))))
        found = Texts({(PLAIN, prompt): text for prompt, text in got.items()}, {})
        labels = ("setting", ENGINES[kind], f"chunks of {CHUNK}")
        table += by_run(labels, read(reference), found)
    return table


def reference_of(line: Row) -> str:
    """The run with which a row was compared."""
    if line.comparison in ("engine", "weights"):
        return "f32"
    (kind,) = (kind for kind, name in ENGINES.items() if name == line.engine)
    return REFERENCES[kind]


def needs_gap(line: Row) -> bool:
    return line.strategy == "greedy" and line.first_difference is not None


def prompt_ids(specdec: Path, names: list[str]) -> dict[str, list[int]]:
    """The tokens of prompts by their name."""
    lines = (HERE / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
    prompts = {row["id"]: row["prompt"] for row in map(json.loads, lines)}
    return {name: logits.prompt_ids(specdec, prompts[name]) for name in names}


def add_gaps(
    table: list[Row], read: Callable[[str], Texts], ids: dict[str, list[int]], specdec: Path
) -> None:
    """Adds the gap at the first difference of greedy texts, by the native engine."""
    greedy = [line for line in table if needs_gap(line)]
    for dtype in ("f32", "q8_0"):
        with logits.Engine(specdec, ["--dtype", dtype]) as native:
            for line in greedy:
                reference = reference_of(line)
                if (dtype == "q8_0") != (reference == "q8-methods"):
                    continue
                plain = read(reference).tokens[PLAIN, line.prompt]
                before = ids[line.prompt] + plain[: line.first_difference]
                line.gap = round(logits.gap(native.logits(before)), 7)


def summary(table: list[Row]) -> list[dict[str, object]]:
    """How many texts differ, by comparison, engine, variant and strategy."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for line in table:
        key = (line.comparison, line.engine, line.variant, line.strategy)
        groups.setdefault(key, []).append(line)
    found = []
    for key, lines in groups.items():
        places = [line.first_difference for line in lines if line.first_difference is not None]
        gaps = [line.gap for line in lines if line.gap is not None]
        found.append(
            dict(zip(("comparison", "engine", "variant", "strategy"), key, strict=True))
            | {
                "methods": "; ".join(dict.fromkeys(line.method for line in lines)),
                "texts": len(lines),
                "differ": len(places),
                "median_first_difference": statistics.median(places) if places else "",
                "median_gap": f"{statistics.median(gaps):.3g}" if gaps else "",
                "largest_gap": f"{max(gaps):.3g}" if gaps else "",
            }
        )
    return found


def write(path: Path, table: list[dict[str, object]]) -> None:
    """Writes a table as CSV, compressed if the name says so."""
    content = io.StringIO()
    writer = csv.DictWriter(content, table[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    data = content.getvalue().encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def machine(work: Path) -> dict[str, object]:
    """What `machine.json` records: the machine, the program, and every run's setting."""
    found = runs.facts(BY_NAME["f32"], work)
    own = ("isa", "threads", "threads_by_rows")
    found = {name: value for name, value in found.items() if name not in own} | {"runs": {}}
    for run in RUNS:
        facts = runs.facts(run, work)
        plan = {"file": run.file, "prompts": run.limit or "all", "set": run.options}
        found["runs"][run.name] = plan | {name: facts[name] for name in own}
    return found


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    program = REPOSITORY / "target" / "release" / "specdec"
    parser.add_argument("--specdec", type=Path, default=program, help="the program")
    work = REPOSITORY / "target" / "13-determinism"
    about = "folder for the runs; a finished run in it is not repeated"
    parser.add_argument("--work", type=Path, default=work, help=about)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    out = REPOSITORY / "results" / "13-determinism" / today
    parser.add_argument("--out", type=Path, default=out, help="folder for the tables")
    args = parser.parse_args()
    args.specdec = args.specdec.resolve()
    args.work = args.work.resolve()
    return args


def main() -> None:
    args = options()
    RUNS[:] = [run for run in RUNS if runs.execute(run, args.specdec, args.work)]

    @functools.cache
    def read(name: str) -> Texts:
        return runs.texts(BY_NAME[name], args.work)

    args.out.mkdir(parents=True, exist_ok=True)
    facts = json.dumps(machine(args.work), indent=2)
    (args.out / "machine.json").write_text(facts + "\n", encoding="utf-8")

    table = compared(read)
    greedy = read("f32").of(PLAIN)
    ids = prompt_ids(args.specdec, sorted(read("q8-methods").of(PLAIN)))
    table += in_chunks(args.specdec, read, ids)
    add_gaps(table, read, ids, args.specdec)
    counts = summary(table)
    write(args.out / "texts.csv.gz", [asdict(line) for line in table])
    write(args.out / "summary.csv", counts)
    draw(counts, args.out / "texts.svg")

    gaps = logits.gaps(args.specdec, {name: (ids[name], text) for name, text in greedy.items()})
    write(args.out / "gaps.csv.gz", gaps)
    write(args.out / "gaps-summary.csv", logits.small(gaps))
    contexts = [BEGIN + text for text in read("q8-methods").of(SAMPLED).values()]
    isas = {run.isa for run in RUNS}
    write(args.out / "logits.csv", logits.compare(args.specdec, contexts, isas))


if __name__ == "__main__":
    main()
