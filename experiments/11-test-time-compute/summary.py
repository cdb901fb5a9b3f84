"""What the rows say: curves over n, differences, and what speculation saves."""

import json
import os
import platform
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import estimates
from texts import Row

SIZES = (1, 2, 4, 8, 16)
GREEDY, MAJORITY, PASS = "greedy", "majority", "pass@n"
LOG_P, LOG_P_PER_TOKEN, PARSER = "log p", "log p per token", "parser"
FUNCTION = "function"


@dataclass(frozen=True)
class Point:
    """The quality that n texts of a problem give, and what they cost."""

    model: str
    request: str
    # How one of n texts is chosen. `pass@n` and `parser`: any that is right.
    choice: str
    n: int
    problems: int
    quality: float
    low: float
    high: float
    # Of all n texts of a problem, on average.
    tokens: float
    decode_seconds: float


@dataclass(frozen=True)
class Difference:
    """How much better one way to answer is than another, on the same problems."""

    better: str
    than: str
    problems: int
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class Saving:
    """Plain and speculative decoding of the same questions with the same seeds."""

    request: str
    temperature: float
    texts: int
    same_texts: int
    tokens: int
    plain_passes: int
    target_passes: int
    draft_passes: int
    plain_seconds: float
    speculative_seconds: float
    # plain_seconds / speculative_seconds, with an interval over problems.
    speedup: float
    low: float
    high: float


Group = dict[str, list[Row]]
# Model, request, choice and number of texts.
Way = tuple[str, str, str, int]


def grouped(rows: Sequence[Row]) -> dict[tuple[str, str], Group]:
    """The sampled rows of every model and request, by problem, in the order of samples.

    Of the large model, only those by speculation, which include those by plain decoding.
    """
    found: dict[tuple[str, str], Group] = defaultdict(lambda: defaultdict(list))
    speculative = {row.model for row in rows if row.method == "speculative"}
    for row in rows:
        if row.method == ("speculative" if row.model in speculative else "plain"):
            found[row.model, row.request][row.problem].append(row)
    return found


def sizes(group: Group) -> list[int]:
    """The numbers of texts for which there are enough."""
    least = min(len(texts) for texts in group.values())
    return [size for size in SIZES if size <= least]


def qualities(group: Group, request: str) -> dict[tuple[str, int], list[float]]:
    """Estimates per problem, for every way to choose and number of texts."""
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    used = sizes(group)
    for problem, texts in group.items():
        correct = [text.correct for text in texts]
        passed = PARSER if request == FUNCTION else PASS
        for n in used:
            found[passed, n].append(estimates.pass_at(n, correct))
        if request != FUNCTION:
            right = majorities(problem, texts, used)
            for n, value in zip(used, right, strict=True):
                found[MAJORITY, n].append(value)
            continue
        for name, scores in likelihoods(texts).items():
            for n in used:
                found[name, n].append(estimates.ranked(n, correct, scores))
    return found


def majorities(problem: str, texts: Sequence[Row], used: Sequence[int]) -> list[float]:
    """How often majorities of the answers of a problem are right."""
    answers = [float(text.answer) if text.answer else None for text in texts]
    # A problem that no text solves has no right answer among its answers.
    right = next((float(text.answer) for text in texts if text.correct), float("nan"))
    return estimates.majorities(problem, answers, right, used)


def likelihoods(texts: Sequence[Row]) -> dict[str, list[float]]:
    """The scores by which the model itself can choose one of its texts."""
    return {
        LOG_P: [float(text.log_prob) for text in texts],
        LOG_P_PER_TOKEN: [float(text.log_prob) / max(text.tokens, 1) for text in texts],
    }


def point(name: tuple[str, str], choice: str, n: int, values: list[float], cost: Group) -> Point:
    """A point of a curve; n texts of a problem cost n times its average text."""
    of = [sum(text.tokens for text in texts) / len(texts) for texts in cost.values()]
    seconds = [sum(text.decode_seconds for text in texts) / len(texts) for texts in cost.values()]
    low, high = estimates.wilson(values)
    return Point(
        *name,
        choice,
        n,
        len(values),
        round(sum(values) / len(values), 4),
        round(low, 4),
        round(high, 4),
        round(n * sum(of) / len(of), 1),
        round(n * sum(seconds) / len(seconds), 3),
    )


def curves(rows: Sequence[Row]) -> list[Point]:
    """All curves, and the points of greedy decoding."""
    found = []
    for name, group in grouped(rows).items():
        for (choice, n), values in qualities(group, name[1]).items():
            found.append(point(name, choice, n, values, group))
    for name, group in greedy(rows).items():
        right = [float(texts[0].correct) for texts in group.values()]
        found.append(point(name, GREEDY, 1, right, group))
    return sorted(found, key=lambda one: (one.model, one.request, one.choice, one.n))


def greedy(rows: Sequence[Row]) -> dict[tuple[str, str], Group]:
    """The rows of speculation at temperature 0, whose texts are those of plain decoding."""
    found: dict[tuple[str, str], Group] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.method == "greedy-speculative":
            found[row.model, row.request][row.problem].append(row)
    return found


def differences(rows: Sequence[Row], large: str, small: str) -> list[Difference]:
    """The differences that the question asks for, as far as there are rows for them."""
    values: dict[Way, dict[str, float]] = {}
    for name, group in grouped(rows).items():
        for (choice, n), found in qualities(group, name[1]).items():
            values[*name, choice, n] = dict(zip(group, found, strict=True))
    for name, group in greedy(rows).items():
        values[*name, GREEDY, 1] = {key: float(texts[0].correct) for key, texts in group.items()}

    def most(model: str, request: str) -> Way:
        """A majority of as many answers as there are."""
        sizes = [key[-1] for key in values if key[:3] == (model, request, MAJORITY)]
        return model, request, MAJORITY, max(sizes, default=0)

    def one(model: str, request: str) -> Way:
        return model, request, MAJORITY, 1

    pairs = [((large, "steps", GREEDY, 1), (large, "direct", GREEDY, 1))]
    for model in (large, small):
        pairs += [(most(model, request), one(model, request)) for request in ("direct", "steps")]
        pairs.append((one(model, "steps"), most(model, "direct")))
    pairs.append((most(small, "steps"), one(large, "steps")))
    return [compared(values, *pair) for pair in pairs if all(key in values for key in pair)]


def compared(values: dict[Way, dict[str, float]], better: Way, than: Way) -> Difference:
    """One difference, over the problems of the first way to answer."""
    problems = list(values[better])
    more, less = ([values[key][problem] for problem in problems] for key in (better, than))
    found = [round(value, 4) for value in estimates.difference(more, less)]
    names = [f"{key[0]}, {key[1]}, {key[2]}, n = {key[3]}" for key in (better, than)]
    return Difference(*names, len(problems), *found)


def speculation(rows: Sequence[Row]) -> list[Saving]:
    """What speculation saves, for every request and temperature that has both."""
    found = []
    for temperature, before in ((0.0, "greedy-"), (0.8, "")):
        for request in ("direct", "steps"):
            plain, speculative = (
                {
                    (row.model, row.problem, row.sample): row
                    for row in rows
                    if (row.request, row.method) == (request, before + method)
                }
                for method in ("plain", "speculative")
            )
            if both := [(plain[key], speculative[key]) for key in plain if key in speculative]:
                found.append(saving(request, temperature, both))
    return found


def saving(request: str, temperature: float, both: list[tuple[Row, Row]]) -> Saving:
    """What speculation saves on pairs of texts."""
    seconds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for pair in both:
        for side, row in enumerate(pair):
            seconds[row.problem][side] += row.decode_seconds
    above, below = zip(*seconds.values(), strict=True)
    return Saving(
        request,
        temperature,
        len(both),
        sum(one.text_sha256 == other.text_sha256 for one, other in both),
        sum(one.tokens for one, _ in both),
        sum(one.target_passes for one, _ in both),
        sum(other.target_passes for _, other in both),
        sum(other.draft_passes for _, other in both),
        round(sum(above), 3),
        round(sum(below), 3),
        *(round(value, 4) for value in estimates.ratio(above, below)),
    )


def cpu_model() -> str:
    """The name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), platform.processor())


def record(file: Path, program: Path, load: float, minutes: float) -> None:
    """Writes the facts about the machine."""
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    facts = {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "specdec": version.stdout.strip(),
        "load_average_before": load,
        "minutes": minutes,
    }
    file.write_text(json.dumps(facts, indent=1) + "\n")
