"""Rejection samplers as people write them, right and wrong."""

from pathlib import Path

import numpy as np


def sampler(accept=None, correction=None, bonus=None):
    """Rejection sampling of a chain; each part can be replaced, and without changes it is right."""
    accept = accept or (lambda p, q, x: p[x] / q[x])
    correction = correction or (lambda p, q: np.maximum(p - q, 0.0))
    bonus = bonus or (lambda p: p[-1])

    def verify(p, q, draft, rng):
        for i, x in enumerate(draft):
            ratio = min(1.0, accept(p[i], q[i], x))
            if rng.choose([ratio, 1.0 - ratio]) == 1:
                weights = correction(p[i], q[i])
                return [*draft[:i], rng.choose(weights if weights.sum() > 0 else p[i])]
        return [*draft, rng.choose(bonus(p))]

    return verify


right = sampler()


def argmax(p, q, draft, rng):
    """Greedy decoding that ignores the temperature."""
    best = p.argmax(axis=1)
    kept = int(np.append(draft == best[:-1], False).argmin())
    return best[: kept + 1]


#: By the name of the bug.
WRONG = {
    "accepts_all": sampler(accept=lambda p, q, x: 1.0),
    "lenient": sampler(accept=lambda p, q, x: 2.0 * p[x] / q[x]),
    "accepts_with_p": sampler(accept=lambda p, q, x: p[x]),
    "correction_from_p": sampler(correction=lambda p, q: p),
    "correction_from_q": sampler(correction=lambda p, q: q),
    "residual_absolute": sampler(correction=lambda p, q: np.abs(p - q)),
    "bonus_from_stale_row": sampler(bonus=lambda p: p[-2]),
    "bonus_is_argmax": sampler(bonus=lambda p: np.eye(len(p[-1]))[p[-1].argmax()]),
    "argmax": argmax,
    "uniform": lambda p, q, draft, rng: right(np.full_like(p, 1 / p.shape[1]), q, draft, rng),
}


def vectorised(p, q, draft, rng, correction=lambda p, q: np.maximum(p - q, 0.0)):
    """Right, with a numpy generator, all acceptance tests at once, padded by -1."""
    generator = rng.generator
    k, at = len(draft), np.arange(len(draft))
    with np.errstate(divide="ignore"):
        kept = generator.random(k) < p[at, draft] / q[at, draft]
    accepted = k if kept.all() else int(kept.argmin())
    weights = p[k] if accepted == k else correction(p[accepted], q[accepted])
    tokens = np.full(k + 1, -1)
    tokens[:accepted] = draft[:accepted]
    tokens[accepted] = generator.choice(len(weights), p=weights / weights.sum())
    return tokens


def documented(form):
    """The bugs that docs/bugs.md lists with this form; a Rust test compares it with the table."""
    lines = (Path(__file__).parents[2] / "docs/bugs.md").read_text().splitlines()
    rows = [line.rstrip("| ").rsplit("|", 1) for line in lines if line.startswith("| `")]
    return {row.split("`")[1] for row, forms in rows if form in forms}
