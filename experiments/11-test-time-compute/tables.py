"""Turns what specdec says into rows, and writes rows as CSV."""

import csv
import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

import functions
from texts import Question, Row, greedy_texts

# As `specdec generate --best-of majority` reads an answer: the last number.
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def last_number(text: str) -> str:
    """The last number of a text, or nothing."""
    found = NUMBER.findall(text)
    return found[-1] if found else ""


def digest(text: str) -> str:
    """The hash of a text, as in specdec's `generations.csv`."""
    return hashlib.sha256(text.encode()).hexdigest()


def sampled(question: Question, sample: int, text: dict, answer: str, correct: bool) -> Row:
    """The row of a sampled text."""
    return Row(
        model=question.model,
        request=question.request,
        problem=question.problem,
        kind=question.problem.split("-")[0],
        method=question.method,
        sample=sample,
        answer=answer,
        correct=correct,
        tokens=len(text["tokens"]),
        target_passes=text["target_forwards"],
        draft_passes=text["draft_forwards"],
        decode_seconds=round(text["decode_us"] / 1e6, 6),
        log_prob=text["log_prob"],
        stop_reason=text["stop_reason"],
        text_sha256=digest(text["text"]),
    )


def answer_row(question: Question, sample: int, text: dict, right: int) -> Row:
    """The row of an answer to a word problem."""
    answer = text["answer"] or ""
    return sampled(question, sample, text, answer, answer != "" and float(answer) == right)


def function_row(question: Question, sample: int, text: dict) -> Row:
    """The row of a completed function."""
    parses = functions.complete(question.prompt, text["text"], text["stop_reason"])
    return sampled(question, sample, text, "", parses)


def greedy_rows(folder: Path, model: str, request: str, right: dict[str, int]) -> list[Row]:
    """The rows of a run at temperature 0, which has plain decoding and one speculative cell."""
    rows = []
    for text in greedy_texts(folder):
        answer = last_number(text["text"])
        row = Row(
            model=model,
            request=request,
            problem=text["prompt"],
            kind=text["category"],
            method="greedy-plain" if text["drafter"] == "none" else "greedy-speculative",
            sample=0,
            answer=answer,
            correct=answer != "" and float(answer) == right[text["prompt"]],
            tokens=int(text["new_tokens"]),
            target_passes=int(text["target_forwards"]),
            draft_passes=int(text["draft_forwards"]),
            decode_seconds=round(float(text["decode_us"]) / 1e6, 6),
            log_prob="",
            stop_reason=text["stop_reason"],
            text_sha256=text["text_sha256"],
        )
        rows.append(row)
    return rows


def write(file: Path, rows: Sequence[object]) -> None:
    """Writes dataclasses of one kind as CSV; no rows, no file."""
    if not rows:
        return
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, [f.name for f in fields(rows[0])], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
