"""Audits of completions."""

import json

import numpy as np
import polars
import pytest
import specdec_harness as specdec
from samplers import documented

P = np.array([0.45, 0.3, 0.2, 0.05])
Q = np.array([0.2, 0.25, 0.15, 0.4])
N = 6_000


def written(accept, correction, seed=0, n=N, k=4):
    """Completions of a decoder in rounds of k drafted tokens."""
    rng, tokens = np.random.default_rng(seed), []
    while len(tokens) < n:
        for _ in range(k):
            x = rng.choice(4, p=Q)
            kept = rng.random() < accept(x)
            tokens.append(x if kept else rng.choice(4, p=correction / correction.sum()))
            if not kept:
                break
        else:
            tokens.append(rng.choice(4, p=P))
    return np.array(tokens[:n])


RESIDUAL = np.maximum(P - Q, 0)
EXACT = written(lambda x: P[x] / Q[x], RESIDUAL)
#: Completions of programs with a bug, by its name.
WRONG = {
    "accepts_all": written(lambda x: 1.0, RESIDUAL),
    "lenient": written(lambda x: 2 * P[x] / Q[x], RESIDUAL),
    "correction_from_p": written(lambda x: P[x] / Q[x], P),
    # The distributions of other bugs are similar, so naming this one takes more tokens.
    "token_match_redraws": written(lambda x: P[x], P, n=40_000),
}


def rows(dist, n=N):
    return np.broadcast_to(dist, (n, len(dist)))


def test_exact_completions_are_not_refuted():
    found = specdec.audit(rows(P), EXACT, q=rows(Q), lengths=[N // 2] * 2, ks=[4])
    assert not found.refuted and found.bug is None and found.e_value < 1e3
    assert (found.sequences, found.tokens, found.impossible, found.level) == (2, N, 0, 1e-3)
    assert str(found).startswith(f"not refuted at level 0.001: {N} tokens of 2 completions")
    bets = found.bets
    names = {*bets["bug"].tolist(), *found.not_placed}
    assert bets.rows + len(found.not_placed) == len(names) == 34 and "raw_target" in found.not_placed
    unlisted = {name for name in names if name.startswith("by_")} | {"other_settings"}
    assert documented("distribution") == names - unlisted and unlisted <= names
    # Each bug has a detectable distance, and a bug that is not there is bounded.
    at = bets["bug"].tolist().index("lenient")
    assert bets["tv_bound"][at] < bets["tv"][at] and bets["tv_detectable"][at] < bets["tv"][at]


@pytest.mark.parametrize("bug", WRONG)
def test_wrong_completions_are_refuted_and_named(bug):
    n = len(WRONG[bug])
    found = specdec.audit(rows(P, n), WRONG[bug], q=rows(Q, n), ks=[4])
    assert found.refuted and found.alike[0] == bug and found.log10_e > 3, found
    assert f"it looks like {bug}" in str(found)
    assert found.bets["bug"][0] == bug and found.bets.to_polars()["log10_e"][0] > 3


def test_copies_count_once():
    once = specdec.audit(rows(P), EXACT, q=rows(Q), lengths=[100] * 60, ks=[4])
    p, q, twice = rows(P, 2 * N), rows(Q, 2 * N), np.tile(EXACT, 2)
    more = {"q": q, "lengths": [100] * 120, "ks": [4]}
    for sources in (None, list(range(60)) * 2):
        found = specdec.audit(p, twice, sources=sources, **more)
        assert (found.copies, found.tokens, found.log10_e) == (60, N, once.log10_e)
        assert "copies of other completions, which are not counted: 60" in str(found)
    apart = specdec.audit(p, twice, sources=[("p", seed) for seed in range(120)], **more)
    assert (apart.copies, apart.tokens) == (0, 2 * N)
    with pytest.raises(ValueError, match="sources has 3 values, and there are 120 sequences"):
        specdec.audit(p, twice, sources=[1, 2, 3], **more)


def test_bugs_that_are_not_excluded_are_listed():
    """With two tokens, a lower temperature and a share of greedy tokens are the same."""
    dist = np.array([0.8, 0.2])
    colder = dist**1.25 / (dist**1.25).sum()
    tokens = np.random.default_rng(6).choice(2, p=colder, size=N)
    found = specdec.audit(rows(dist), tokens)
    assert found.refuted and found.bug is None and {"argmax", "colder"} <= set(found.alike), found
    assert f"it looks like {' or '.join(found.alike)}" in str(found)


def test_every_token_meets_its_own_row():
    """Distributions that change from token to token, across two sequences."""
    dists = np.array([P, P[::-1], Q])[np.arange(3000) % 3]
    rng = np.random.default_rng(4)
    tokens = np.array([rng.choice(4, p=dist) for dist in dists])
    lengths = [1000, 2000]
    assert not specdec.audit(dists, tokens, lengths=lengths, ks=[4]).refuted
    shifted = specdec.audit(np.roll(dists, 1, axis=0), tokens, lengths=lengths, ks=[4])
    assert shifted.refuted and shifted.log10_e > 10


def test_distributions_before_processors():
    """Each kind of distribution allows its own bets, and the right one wins."""
    raw_p, raw_q = P**0.5 / (P**0.5).sum(), Q**0.5 / (Q**0.5).sum()
    more = {"q": rows(Q), "raw_p": rows(raw_p), "raw_q": rows(raw_q), "ks": [4]}
    assert specdec.audit(rows(P), EXACT, **more).not_placed == ()
    forgotten = np.random.default_rng(5).choice(4, p=raw_p, size=N)
    assert specdec.audit(rows(P), forgotten, **more).alike[0] == "raw_target"
    verified = written(lambda x: P[x] / raw_q[x], np.maximum(P - raw_q, 0), n=4 * N)
    more = {"q": rows(Q, 4 * N), "raw_p": rows(raw_p, 4 * N), "raw_q": rows(raw_q, 4 * N)}
    found = specdec.audit(rows(P, 4 * N), verified, ks=[4], **more)
    assert found.alike[0] == "raw_q_verified"


def test_columns_of_polars():
    table = polars.DataFrame(
        {
            "sequence": np.repeat(np.arange(60), 100),
            "token": WRONG["lenient"],
            "p": polars.Series(rows(P).tolist()),
            "q": polars.Series(rows(Q).tolist()),
        }
    )
    names = table["sequence"]
    found = specdec.audit(table["p"], table["token"], q=table["q"], sequences=names, ks=[4])
    assert found.refuted and found.alike[0] == "lenient" and found.sequences == 60


def test_tokens_that_the_target_cannot_draw():
    dist = np.array([0.5, 0.5, 0.0])
    found = specdec.audit(rows(dist, 3), [0, 2, 1])
    assert found.refuted and found.impossible == 1 and found.first_impossible == ("0", 0, 1, 2)
    assert "the first 2 at position 1 of sequence 0" in str(found)


def test_plain_completions_are_the_floor():
    colder = P**1.5 / (P**1.5).sum()
    plain = specdec.audit(rows(colder), EXACT, ks=[4])
    assert plain.refuted
    again = specdec.audit(rows(colder), EXACT, ks=[4], plain=plain)
    assert not again.refuted and again.plain_log10_e == plain.log10_e


def test_impossible_tokens_count_by_their_rate():
    """Greedy completions of another model, of which the plain ones have one token."""
    greedy, lengths = rows([1.0, 0.0], 768), [64] * 12
    plain, other = np.zeros(768, int), np.zeros(768, int)
    plain[70], other[3::8] = 1, 1
    sources = range(12)
    floor = specdec.audit(greedy, plain, lengths=lengths, sources=sources)
    found = specdec.audit(greedy, other, lengths=lengths, sources=sources, plain=floor)
    assert found.refuted and found.log10_e_impossible > 3.3
    assert (found.impossible, found.plain_impossible) == (96, 1)
    assert not specdec.audit(greedy, plain, lengths=lengths, plain=floor).refuted


def tape(path, completions, samplings=1):
    model = {
        "name": "",
        "sha256": "",
        "tokenizer_sha256": "",
        "vocab": 4,
        "engine": "",
        "dtype": "",
        "device": "",
    }
    header = {
        "format": 1,
        "source": "mine",
        "build": "",
        "target": model,
        "samplings": [{}] * samplings,
    }
    lines = [{"tape": header}]
    for number, tokens in enumerate(completions):
        sequence = {
            "prompt": f"p{number}",
            "sampling": 0,
            "prompt_tokens": [1, 2],
            "tokens": tokens.tolist(),
            "max_tokens": len(tokens),
            "end": "length",
        }
        lines.append({"text": sequence})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_tape_with_distributions(tmp_path):
    file = tape(tmp_path / "tape.jsonl", np.split(WRONG["lenient"], 60))
    seen = []

    def scorer(prompt, tokens):
        seen.append((prompt.tolist(), len(tokens)))
        return rows(P, len(tokens))

    found = specdec.audit(file, p=scorer, q=rows(Q), ks=[4])
    assert found.refuted and found.alike[0] == "lenient" and found.sequences == 60
    assert seen == [([1, 2], 100)] * 60
    same = specdec.audit(rows(P), WRONG["lenient"], q=rows(Q), lengths=[100] * 60, ks=[4])
    assert same.log10_e == pytest.approx(found.log10_e)


def test_bad_input_is_one_sentence(tmp_path):
    def refused(why, *source, **more):
        with pytest.raises(ValueError, match=why) as found:
            specdec.audit(*source, **more)
        assert "\n" not in str(found.value)

    p = rows(P, 3)
    refused("p has 3 rows and not 2, one for each token", p, [0, 1])
    refused("q has 2 rows and not 3", p, [0, 1, 2], q=rows(Q, 2))
    other = rows([0.2, 0.3, 0.5], 3)
    refused("a draft distribution has 3 tokens and not 4", p, [0, 1, 2], q=other)
    refused(r"tokens\[2\] is 4: allowed are the tokens 0 to 3", p, [0, 1, 4])
    refused(r"p\[1\]: the probabilities sum to 2, not to 1", p * [[1], [2], [1]], [0, 1, 2])
    refused(r"p\[0\]: token 0 has the value NaN", p * np.nan, [0, 1, 2])
    refused("tokens is empty", rows(P, 0), [])
    refused("level is 2: allowed is", p, [0, 1, 2], level=2)
    refused("ks: 0 is out of range", p, [0, 1, 2], ks=[0])
    refused("lengths sum to 2", p, [0, 1, 2], lengths=[1, 1])
    refused("give one of them", p, [0, 1, 2], lengths=[3], sequences=[0, 0, 0])
    refused("sequences: a begins twice", p, [0, 1, 2], sequences=["a", "b", "a"])
    refused("allowed are audit.p, tokens. and", p)
    file = tape(tmp_path / "tape.jsonl", [np.array([0, 1])])
    refused("a tape holds no distributions", file)
    refused("p has 3 rows and not 2, one for each token", file, p=p)
    whole = "p has 1 rows and not 2, one for each token of the completion"
    refused(whole, file, p=lambda *_: p[:1])
    refused("sampling is 1: .* has the numbers 0 to 0", file, p=p[:2], sampling=1)
    refused("has several sampling settings", tape(file, [np.array([0])], 2), p=p[:1])


def test_what_a_scorer_raises_comes_out(tmp_path):
    def fails(prompt, tokens):
        raise LookupError("no model")

    with pytest.raises(LookupError, match="no model"):
        specdec.audit(tape(tmp_path / "tape.jsonl", [np.array([0])]), p=fails)
