"""Writes arithmetic word problems whose answers are known, from a seed.

    python experiments/11-test-time-compute/problems.py

Every problem is asked twice, with the same id: direct.jsonl asks for the number alone, steps.jsonl
for the calculations first. answers.json has the answers. The files are part of the repository; a
changed seed or kind needs new ones.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import json
import random
from collections.abc import Callable

HERE = Path(__file__).resolve().parent
SEED, PER_KIND = 11, 5
NAMES = ("Ana", "Ben", "Chen", "Dina", "Emil", "Fatima", "Goran", "Hana")
# "Answer with the number alone" is not enough: the model then often explains its way first.
REQUESTS = {
    "direct": "Reply with one number and nothing else: no words, no calculation.",
    "steps": (
        "Write one short calculation per line, then a last line with 'Answer: ' and the number."
    ),
}

Problem = tuple[str, int]


def boxes(draw: random.Random, name: str) -> Problem:
    """Fill boxes and give some of it away."""
    per, count, away = draw.randint(6, 14), draw.randint(3, 9), draw.randint(2, 15)
    text = (
        f"{name} has {count} boxes with {per} apples each and gives {away} apples away. "
        f"How many apples are left?"
    )
    return text, per * count - away


def ages(draw: random.Random, name: str) -> Problem:
    """Compare ages."""
    own, older, years = draw.randint(5, 12), draw.randint(2, 4), draw.randint(3, 9)
    text = (
        f"{name} is {own} years old, and {name}'s aunt is {older} times as old. "
        f"How old will the aunt be in {years} years?"
    )
    return text, own * older + years


def shop(draw: random.Random, name: str) -> Problem:
    """Buy several things and pay with a note."""
    price, count, other = draw.randint(2, 9), draw.randint(3, 8), draw.randint(3, 12)
    paid = 50 if price * count + other < 50 else 100
    text = (
        f"{name} buys {count} notebooks for {price} euros each and a pen for {other} euros, "
        f"and pays with {paid} euros. How many euros does {name} get back?"
    )
    return text, paid - price * count - other


def trip(draw: random.Random, name: str) -> Problem:
    """Drive in two parts, and find what is left of the way."""
    fast, slow = draw.choice((65, 80, 95)), draw.choice((35, 40, 55))
    first, second, left = draw.randint(2, 4), draw.randint(2, 3), draw.randint(15, 60)
    way = fast * first + slow * second + left
    text = (
        f"A journey is {way} km long. {name} drives {first} hours at {fast} km per hour and then "
        f"{second} hours at {slow} km per hour. How many kilometres are left?"
    )
    return text, left


def wages(draw: random.Random, name: str) -> Problem:
    """Work with overtime, and pay for the way."""
    wage, hours, extra = draw.randint(11, 16), draw.randint(5, 8), draw.randint(2, 3)
    days, fare = draw.randint(2, 4), draw.randint(3, 8)
    text = (
        f"{name} earns {wage} euros an hour and twice as much for overtime. On each of {days} days "
        f"{name} works {hours} normal hours and {extra} hours of overtime, and pays {fare} euros "
        f"for the bus. How many euros are left of the wages of these days?"
    )
    return text, days * (wage * hours + 2 * wage * extra - fare)


def tickets(draw: random.Random, name: str) -> Problem:
    """Buy tickets, of which a third costs half."""
    third, price, rows = draw.randint(3, 7), 2 * draw.randint(4, 9), draw.randint(2, 4)
    text = (
        f"{name} buys {3 * third * rows} tickets for {price} euros each, but a third of them are "
        f"for children and cost half. How many euros do the tickets cost altogether?"
    )
    return text, rows * third * (2 * price + price // 2)


# From two calculations to six. All answers are below 1000, so none has a thousands separator.
KINDS: tuple[Callable[[random.Random, str], Problem], ...] = (
    boxes,
    ages,
    shop,
    trip,
    wages,
    tickets,
)


def drawn() -> dict[str, Problem]:
    """All problems by id."""
    draw = random.Random(SEED)
    return {
        f"{kind.__name__}-{number}": kind(draw, draw.choice(NAMES))
        for number in range(1, PER_KIND + 1)
        for kind in KINDS
    }


def line(name: str, text: str, request: str) -> str:
    """A line of a prompt file."""
    kind = name.split("-")[0]
    return json.dumps({"id": name, "category": kind, "prompt": f"{text} {REQUESTS[request]}"})


def main() -> None:
    """Writes the three files."""
    found = drawn()
    for request in REQUESTS:
        lines = [line(name, text, request) for name, (text, _) in found.items()]
        (HERE / f"{request}.jsonl").write_text("\n".join(lines) + "\n")
    answers = {name: answer for name, (_, answer) in found.items()}
    (HERE / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main()
