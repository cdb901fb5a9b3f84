"""Forecasts, against a brute-force enumeration and against the program."""

import csv
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import specdec_harness as specdec

RUN = Path(__file__).parents[2] / "results/09-tape/2026-11-25-amd-epyc-2c"

P = np.array([0.5, 0.3, 0.2])
Q = np.array([0.2, 0.3, 0.5])
COMPLETION = [2, 0, 1, 2, 0]


def accepted_given(completion, k):
    """The distribution of the number of accepted tokens of a rejection-sampled round, given that it
    begins a completion that was drawn from the target: every draft, every decision."""
    room = min(k, len(completion) - 1)
    dist = np.zeros(room + 1)
    for draft in itertools.product(range(3), repeat=room):
        drawn = np.prod(Q[list(draft)])
        for accepted in range(room + 1):
            kept = np.prod([min(1.0, P[x] / Q[x]) for x in draft[:accepted]])
            rest = P
            if accepted < room:
                x = draft[accepted]
                kept *= 1.0 - min(1.0, P[x] / Q[x])
                rest = np.maximum(P - Q, 0.0) / np.maximum(P - Q, 0.0).sum()
            emitted = [*draft[:accepted], completion[accepted]]
            if emitted == completion[: accepted + 1]:
                dist[accepted] += drawn * kept * rest[completion[accepted]] / np.prod(P[emitted])
    assert abs(dist.sum() - 1) < 1e-12
    return dist


def brute_force(completion, k):
    """Expected rounds, accepted and drafted tokens."""
    if not completion:
        return np.zeros(3)
    dist = accepted_given(completion, k)
    room = len(dist) - 1
    each = (
        share * (np.array([1, accepted, room]) + brute_force(completion[accepted + 1 :], k))
        for accepted, share in enumerate(dist)
        if share > 0
    )
    return sum(each, np.zeros(3))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_a_forecast_is_the_sum_over_all_drafts(k):
    completions = [COMPLETION, COMPLETION[1:4]]
    drawn = np.concatenate(completions)
    lengths = [len(completion) for completion in completions]
    found = specdec.forecast(np.log(P[drawn]), np.log(Q[drawn]), lengths, [k], rules=["rejection"])
    rounds, accepted, proposed = sum(brute_force(completion, k) for completion in completions)
    assert found["rounds"] == pytest.approx([rounds], rel=1e-12)
    assert found["accepted"] == pytest.approx([accepted], rel=1e-12)
    assert found["proposed"] == pytest.approx([proposed], rel=1e-12)
    assert found["tokens"].tolist() == [8] and found["texts"].tolist() == [2]
    assert found["tokens_per_round"] == pytest.approx([8 / rounds])
    assert found["acceptance_rate"] == pytest.approx([accepted / proposed])
    assert found["block_efficiency"] == pytest.approx([1 + accepted / rounds])


def test_rules_and_survival():
    drawn = np.random.default_rng(0).choice(3, p=P, size=2000)
    found = specdec.forecast(np.log(P[drawn]), np.log(Q[drawn]), ks=[1, 4])
    table = found.to_polars()
    assert (
        table["verifier"].to_list() == ["rejection"] * 2 + ["traversal"] * 2 + ["token_match"] * 2
    )
    # A drafted token is accepted with probability sum of min(p, q), independent of the past.
    overlap = np.minimum(P, Q).sum()
    assert found["conditional_acceptance"][0] == pytest.approx(overlap, abs=0.03)
    assert found["survival"].shape == (6, 4) and np.isnan(found["survival"][0, 1:]).all()
    assert found["survival"][1] == pytest.approx(overlap ** np.arange(1, 5), abs=0.05)
    # Block verification accepts no fewer, and matching of draws no more.
    rejection, block, match = found["accepted"][1::2]
    assert match < rejection <= block
    # A race accepts a token with the probability that is given.
    one = specdec.forecast([-1.0] * 3, [-1.0] * 3, ks=[1], race=[0.5, 0.5, 0.5], rules=["gumbel"])
    assert one["acceptance_rate"] == pytest.approx([0.5])
    assert len(found.to_pandas()) == 6


def test_completions_that_end_may_draft_their_last_token():
    cut = specdec.forecast([-1.0, -1.0], [-1.0, -1.0], ks=[2], rules=["rejection"])
    ended = specdec.forecast([-1.0, -1.0], [-1.0, -1.0], ks=[2], rules=["rejection"], max_tokens=9)
    assert cut["accepted"].tolist() == [1.0] and ended["accepted"].tolist() == [2.0]


def test_a_tape_has_the_forecast_of_the_program():
    found = specdec.forecast(RUN / "tape.jsonl.gz", ks=range(1, 17)).to_polars()
    with open(RUN / "forecast.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(found) == len(rows) == 288
    assert found["verifier"].to_list() == [row["verifier"] for row in rows]
    assert found["num_speculative_tokens"].to_list() == [
        int(row["num_speculative_tokens"]) for row in rows
    ]
    assert found["drafter"][0] == "model embedded-draft in q8_0" and found["sampling"][0] == "T = 0"
    for name in (
        "texts",
        "tokens",
        "rounds",
        "accepted",
        "proposed",
        "block_efficiency",
        "tokens_per_round",
        "acceptance_rate",
        "conditional_acceptance",
    ):
        assert found[name].to_list() == pytest.approx([float(row[name]) for row in rows], rel=1e-9)
    for ours, row in zip(found["survival"], rows):
        theirs = [float(each) for each in row["survival"].split()]
        assert ours.to_list()[: len(theirs)] == pytest.approx(theirs, abs=2e-6)


def test_bad_input_is_one_sentence(tmp_path):
    def refused(why, *columns, **more):
        with pytest.raises(ValueError, match=why) as found:
            specdec.forecast(*columns, **more)
        assert "\n" not in str(found.value)

    logs = [-1.0, -2.0]
    refused("log_q is missing", logs)
    refused("log_q has 1 rows and not 2", logs, [-1.0])
    refused(r"log_q\[1\] is not a number", logs, [-1.0, np.nan])
    refused("is 0.5: no probability is above 1", [0.5, -1.0], logs)
    refused("log_p is empty", [], [])
    refused("lengths sum to 1, and there are 2 tokens", logs, logs, [1])
    refused("lengths: 0 is out of range", logs, logs, [2, 0])
    refused("ks: 65 is out of range: allowed is 1 to 64", logs, logs, ks=[65])
    refused('unknown rule "rejetion" .did you mean "rejection"', logs, logs, rules=["rejetion"])
    refused("the rule gumbel needs the column race", logs, logs, rules=["gumbel"])
    refused("race holds numbers that are no probabilities", logs, logs, race=[0.5, 2.0])
    refused('2 tokens do not fit "max_tokens" = 1', logs, logs, max_tokens=1)
    tape = tmp_path / "tape.jsonl"
    tape.write_text("{}\n")
    refused("tape.jsonl: line 1: not a line of a tape", tape)
    tape.write_bytes(b"PAR1")
    refused("allowed are .jsonl and .jsonl.gz", tape)
    refused("a tape holds all columns", tape, logs)
    with pytest.raises(FileNotFoundError):
        specdec.forecast(tmp_path / "missing.jsonl")
    header = {
        "format": 1,
        "source": "mine",
        "build": "",
        "samplings": [{}],
        "target": {
            "name": "",
            "sha256": "",
            "tokenizer_sha256": "",
            "vocab": 3,
            "engine": "",
            "dtype": "",
            "device": "",
        },
    }
    tape.write_text(json.dumps({"tape": header}) + "\n")
    refused("it has no scores for the rules", tape)
