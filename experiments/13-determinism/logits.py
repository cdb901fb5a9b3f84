"""Compares logits bit for bit, and finds the gaps between the two largest."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from runs import FASTEST

# A context that shares no token with another: after it, a session holds nothing of use.
OTHER = [1]


class Engine:
    """A process of `specdec bench --interactive` that gives logits on request.

    The process keeps what it has computed, so a longer context adds a pass for its new tokens.
    """

    def __init__(self, specdec: Path, options: list[str], isa: str = FASTEST) -> None:
        self.process = subprocess.Popen(
            [specdec, "bench", "--interactive", *options],
            env=os.environ | {"SPECDEC_ISA": isa},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.process.stdout.readline()

    def line(self, tokens: list[int]) -> str:
        """The answer as it is written: equal lines are equal bits."""
        self.process.stdin.write(f"logits-after {' '.join(map(str, tokens))}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def logits(self, tokens: list[int]) -> list[float]:
        return json.loads(self.line(tokens))["logits"]

    def prefill(self, tokens: list[int], chunk: int) -> str:
        """The answer after a prefill in passes of `chunk` tokens; 0 is one pass for all."""
        self.line(OTHER)
        for end in range(chunk, len(tokens), chunk) if chunk else ():
            self.line(tokens[:end])
        return self.line(tokens)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait()


@dataclass
class Setting:
    """How a prefill is computed, and for how many contexts."""

    name: str
    contexts: int
    chunk: int = 0
    options: list[str] = field(default_factory=list)
    isa: str = FASTEST


ONE_THREAD = ["--threads", "1"]
# The first setting of each engine and type is the reference of the others.
SETTINGS = {
    "native f32": (
        [],
        [
            Setting("reference", 1000),
            Setting("1 thread", 1000, options=ONE_THREAD),
            Setting("avx2", 1000, isa="avx2"),
            Setting("avxvnni", 1000, isa="avxvnni"),
            Setting("portable", 2, isa="portable"),
            Setting("chunks of 16", 1000, 16),
            Setting("chunks of 1", 100, 1),
        ],
    ),
    "native q8_0": (
        ["--dtype", "q8_0"],
        [
            Setting("reference", 1000),
            Setting("1 thread", 1000, options=ONE_THREAD),
            Setting("avx2", 1000, isa="avx2"),
            Setting("avxvnni", 1000, isa="avxvnni"),
            Setting("portable", 10, isa="portable"),
            Setting("chunks of 16", 1000, 16),
            Setting("chunks of 1", 100, 1),
        ],
    ),
    "candle f32": (
        ["--engine", "candle"],
        [
            Setting("reference", 1000),
            Setting("1 thread", 1000, options=ONE_THREAD),
            Setting("chunks of 16", 1000, 16),
            Setting("chunks of 1", 100, 1),
        ],
    ),
}


def prompt_ids(specdec: Path, prompt: str) -> list[int]:
    """The tokens of a prompt. The draft model has the target's tokenizer and loads faster."""
    command = [specdec, "inspect", "--target", "embedded-draft", "--json", f"--prompt={prompt}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["prompt_ids"]


def row(engine: str, setting: Setting, known: list[str], got: list[str]) -> dict[str, object]:
    """How the logits of a setting differ from those of the reference."""
    differ, values, worst, other_token = 0, 0, 0.0, 0
    for reference, line in zip(known, got, strict=False):
        if reference == line:
            continue
        old, new = json.loads(reference)["logits"], json.loads(line)["logits"]
        steps = [abs(a - b) for a, b in zip(old, new, strict=True)]
        differ += 1
        values += sum(step > 0 for step in steps)
        worst = max(worst, *steps)
        other_token += old.index(max(old)) != new.index(max(new))
    return {
        "engine": engine,
        "setting": setting.name,
        "contexts": len(got),
        "rows_that_differ": differ,
        "logits_that_differ": values,
        "largest_difference": f"{worst:.3g}",
        "other_greedy_token": other_token,
    }


def compare(
    specdec: Path, contexts: list[list[int]], isas: set[str]
) -> list[dict[str, object]]:
    """Computes the logits after every context in every setting that has one of the instruction
    sets, and compares them."""
    table = []
    for engine, (options, settings) in SETTINGS.items():
        known: list[str] = []
        for setting in (setting for setting in settings if setting.isa in isas):
            with Engine(specdec, options + setting.options, setting.isa) as process:
                chosen = contexts[: setting.contexts]
                got = [process.prefill(tokens, setting.chunk) for tokens in chosen]
            known = known or got
            table.append(row(engine, setting, known, got))
            print(table[-1], flush=True)
    return table


def greedy(
    specdec: Path, options: list[str], prompts: dict[str, list[int]], chunk: int, tokens: int
) -> dict[str, list[int]]:
    """Greedy texts whose prompts are read in passes of `chunk` tokens."""
    found = {}
    with Engine(specdec, options) as engine:
        for prompt, before in prompts.items():
            text: list[int] = []
            row = engine.prefill(before, chunk)
            while len(text) < tokens:
                values = json.loads(row)["logits"]
                text.append(values.index(max(values)))
                row = engine.line(before + text)
            found[prompt] = text
    return found


def gap(logits: list[float]) -> float:
    """The difference between the two largest logits."""
    largest, second = sorted(logits, reverse=True)[:2]
    return largest - second


def gaps(specdec: Path, texts: dict[str, tuple[list[int], list[int]]]) -> list[dict[str, object]]:
    """The gap at every token of greedy texts, which are given with the tokens of their prompts."""
    table = []
    with Engine(specdec, []) as native:
        for prompt, (before, text) in texts.items():
            for at, token in enumerate(text):
                logits = native.logits(before + text[:at])
                assert logits.index(max(logits)) == token
                table.append({"prompt": prompt, "token": at, "gap": f"{gap(logits):.6g}"})
    return table


def small(gaps: list[dict[str, object]]) -> list[dict[str, object]]:
    """How many gaps are below some thresholds."""
    values = [float(row["gap"]) for row in gaps]
    thresholds = [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1]
    counts = [{"gap_below": t, "tokens": sum(v < t for v in values)} for t in thresholds]
    return [*counts, {"gap_below": "all", "tokens": len(values)}]
