"""The production verifiers on arrays."""

import numpy as np
import pytest
import specdec_harness as specdec

P = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]])
Q = np.array([[0.2, 0.3, 0.5], [0.4, 0.4, 0.2]])

#: Verifiers whose output has the target's distribution on chains of sampled tokens.
LOSSLESS = [name for name, info in specdec.verifiers().items() if info.guarantee[0] in "DP"]


def drawn(rng):
    return [rng.choice(3, p=row) for row in Q]


@pytest.mark.parametrize("name", LOSSLESS)
def test_the_output_has_the_target_s_distribution(name):
    rng, rounds = np.random.default_rng(1), 20_000
    first, second = np.zeros(3), np.zeros((3, 3))
    for _ in range(rounds):
        tokens, accepted = specdec.verify(name, P, Q, drawn(rng), rng)
        assert len(tokens) == accepted + 1
        first[tokens[0]] += 1
        # Later tokens are distributed as p given that the draft was accepted so far.
        if accepted > 0:
            second[tokens[0], tokens[1]] += 1
    # Five standard errors of the 3 numbers.
    assert np.abs(first / rounds - P[0]).max() < 5 * np.sqrt(0.25 / rounds)
    for row in second:
        if row.sum() > 1000:
            assert np.abs(row / row.sum() - P[1]).max() < 5 * np.sqrt(0.25 / row.sum())


def test_another_distribution_would_be_noticed():
    """lenient is approximate: the first token leaves p as its closed form says."""
    rng, rounds = np.random.default_rng(2), 20_000
    first = np.zeros(3)
    for _ in range(rounds):
        first[specdec.verify("lenient", P, Q, drawn(rng), rng, lenience=0.5).tokens[0]] += 1
    kept = np.minimum(Q[0], 2 * P[0])
    rest = np.maximum(P[0] - 0.5 * Q[0], 0)
    dist = kept + (1 - kept.sum()) * rest / rest.sum()
    assert np.abs(first / rounds - dist).max() < 5 * np.sqrt(0.25 / rounds)
    assert np.abs(dist - P[0]).max() > 0.05


def test_a_seed_is_a_round():
    one = [specdec.verify("rejection", P, Q, [2, 1], 7) for _ in range(2)]
    assert np.array_equal(one[0].tokens, one[1].tokens) and one[0].accepted == one[1].accepted
    found = {tuple(specdec.verify("rejection", P, Q, [2, 1], seed).tokens) for seed in range(50)}
    assert len(found) > 3


def test_certain_drafts_and_no_drafts():
    rng = np.random.default_rng(3)
    tokens, accepted = specdec.verify("rejection", np.eye(3), None, [0, 1], rng)
    assert tokens.tolist() == [0, 1, 2] and accepted == 2 and tokens.dtype == np.int64
    tokens, accepted = specdec.verify("rejection", P[:1], Q[:0], [], rng)
    assert len(tokens) == 1 and accepted == 0


def test_numbers_of_any_precision():
    for dtype in (np.float16, np.float32, np.float64):
        assert specdec.verify("rejection", P.astype(dtype), Q.astype(dtype), [2, 1], 7)


def test_bad_input_is_one_sentence():
    def refused(why, name="rejection", p=P, q=Q, draft=(2, 1), rng=1, **settings):
        with pytest.raises(ValueError, match=why) as found:
            specdec.verify(name, p, q, draft, rng, **settings)
        assert "\n" not in str(found.value)

    names = ", ".join(specdec.verifiers())
    refused(
        f'unknown verifier "rejectoin" .did you mean "rejection".*allowed are {names}', "rejectoin"
    )
    refused("p has 2 rows and not 3", p=P[:2])
    refused("q has 1 rows and not 2", q=Q[:1])
    refused("q has distributions of 2 tokens, and p of 3", q=[[0.5, 0.5]] * 2)
    refused("p has the shape .3,.", p=[0.2, 0.3, 0.5])
    refused("draft has the shape", draft=[[2, 1]])
    refused(r"p\[1\]: the probabilities sum to 0.5, not to 1", p=P * [[1], [0.5], [1]])
    refused(r"q\[0\]: the probabilities sum to 0, not to 1", q=Q * 0)
    refused(r"p\[2\]: token 1 has the value NaN", p=[*P[:2], [0.5, np.nan, 0.5]])
    refused(r"p\[2\]: token 1 has the negative probability", p=[*P[:2], [0.75, -0.25, 0.5]])
    refused(r"draft\[1\] is 3: allowed are the tokens 0 to 2", draft=[0, 3])
    refused(r"draft\[0\] is -1: allowed are", draft=[-1, 0])
    refused("draft holds float64: allowed are integers", draft=[0.0, 1.0])
    refused(r"draft\[0\] is 2, which has probability 0 in q\[0\]", q=[[0.5, 0.5, 0.0], Q[1]])
    refused("rng is 1.5: allowed are", rng=1.5)
    refused("lenience = 3 is out of range", "lenient", lenience=3)
    refused("unknown setting .lenient.*did you mean .lenience", "lenient", lenient=0.5)
    refused("unknown setting .x.: rejection has none", x=1)
    refused("lenience is None", "lenient", lenience=None)
    refused("p: its rows have different lengths", p=np.array([P[0], P[1][:2], P[2]], dtype=object))
    refused("p holds", p=[["a", "b", "c"]] * 3)


def test_verifiers_state_their_settings():
    info = specdec.verifiers()["lenient"]
    assert info.guarantee == "X approximate"
    assert info.settings == {"lenience": "a number from 0.01 to 1, default 0.5"}
