"""Certificates of verifiers in Python."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import specdec_harness as specdec
from samplers import WRONG, documented, right, sampler, vectorised


def test_a_right_sampler_is_enumerated():
    found = specdec.certify(right)
    assert found and found.exact and found.enumerated and found.verdict == "exact"
    assert (found.vocab, found.k, found.paths, found.sampling) == (4, 3, found.rounds, None)
    assert found.max_tv < 1e-12 and found.max_error < 1e-12 and found.bar == 1e-12
    assert found.paths > 1000 and found.cases.rows >= 10
    assert found.cases["rounds"].sum() == found.paths
    assert found.acceptance == pytest.approx(found.rejection_acceptance) and found.alike == ()
    assert {(4, 3), (40, 1), (2, 6)} == set(zip(found.cases["vocab"], found.cases["k"]))
    assert str(found).startswith("exact: the joint distribution of K + 1 tokens")
    assert "1.0e-12" in repr(found)
    assert specdec.exact(right, vocab=3, k=2)


@pytest.mark.parametrize("bug", WRONG)
def test_wrong_samplers_are_refuted_and_named(bug):
    found = specdec.certify(WRONG[bug])
    assert not found and found.verdict == "wrong" and found.enumerated and not found.exact
    assert found.max_tv > 0.01
    assert found.likely_bug.name == bug and bug in documented("verifier"), found
    assert f"likely bug: {bug}" in str(found) and bug in repr(found)
    # The witness has another distribution than the target, and what is expected is a row of p.
    worst = found.worst
    assert np.abs(worst.expected - worst.found).max() > 1e-3
    assert np.allclose(worst.expected, worst.p[len(worst.after)], atol=1e-12)
    (k, vocab) = worst.q.shape
    assert worst.p.shape == (k + 1, vocab) and worst.draft.shape == (k,)


def test_a_bug_that_is_on_no_list_is_refuted():
    """The residual is taken of rounded numbers."""
    found = specdec.certify(sampler(correction=lambda p, q: np.maximum(p - q, 0.0).round(1) + 1e-9))
    assert found.verdict == "wrong" and found.likely_bug is None
    assert found.closest_bug.tv > 1e-9


def test_sampling_has_a_stated_power():
    found = specdec.certify(vectorised, detect=0.05)
    assert found and found.verdict == "not_refuted" and not found.exact and not found.enumerated
    assert found.paths == 0 and 0.04 < found.sampling.min_detectable_tv < 0.0501
    assert found.sampling.level == 1e-3 and found.sampling.statistic < found.sampling.critical
    assert "which would find a total variation of 0.04" in str(found)

    def from_p(p, q, draft, rng):
        return vectorised(p, q, draft, rng, correction=lambda p, q: p)

    found = specdec.certify(from_p, detect=0.05)
    assert found.verdict == "wrong" and found.likely_bug.name == "correction_from_p"

    def uniforms(p, q, draft, rng):
        for i, x in enumerate(draft):
            if rng.uniform() >= p[i, x] / q[i, x]:
                return [*draft[:i], np.maximum(p[i] - q[i], 0.0).argmax()]
        return [*draft, rng.choose(p[-1])]

    found = specdec.certify(uniforms, detect=0.05)
    assert found.verdict == "wrong" and not found.enumerated
    # The same seed gives the same rounds.
    both = [specdec.certify(vectorised, rounds=2000, seed=5) for _ in range(2)]
    assert both[0].sampling == both[1].sampling and both[0].rounds == 2016


def test_single_precision_has_its_own_bar():
    def single(p, q, draft, rng):
        assert p.dtype == q.dtype == np.float32
        return right(p, q, draft, rng)

    found = specdec.certify(single, dtype=np.float32)
    assert found.exact and 1e-7 < found.bar < 1e-5

    def rounded(p, q, draft, rng):
        return right(p.astype(np.float32), q.astype(np.float32), draft, rng)

    found = specdec.certify(rounded)
    assert found.verdict == "wrong" and found.max_tv < 1e-6
    assert "rounding of a verifier that computes in f32" in str(found)


def test_what_the_function_raises_comes_out():
    class Mine(Exception):
        pass

    def fails(p, q, draft, rng):
        if rng.choose([0.5, 0.5]):
            raise Mine("seven")
        return right(p, q, draft, rng)

    with pytest.raises(Mine, match="^seven$"):
        specdec.certify(fails)

    def interrupted(p, q, draft, rng):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        specdec.certify(interrupted)


def test_randomness_from_elsewhere_is_found():
    other = np.random.default_rng(0)
    found = specdec.certify(lambda p, q, draft, rng: [other.choice(len(p[0]), p=p[0])])
    assert found.verdict == "invalid" and not found
    assert "not a function of the round" in found.fault and "invalid" in str(found)


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (lambda draft: [9], "there is no token 9"),
        (lambda draft: [], "a round has at least one"),
        (lambda draft: [(draft[0] + 1) % 4, 0], "must be the first tokens of the draft"),
        (lambda draft: [*draft, 0, 0], "a round has at most 4"),
    ],
)
def test_what_no_verifier_may_do_is_reported(returned, why):
    found = specdec.certify(lambda p, q, draft, rng: returned(draft))
    assert found.verdict == "invalid" and why in found.fault


def test_bad_input_is_one_sentence():
    def refused(why, fn=right, **options):
        with pytest.raises(ValueError, match=why):
            specdec.certify(fn, **options)

    refused("returned None", lambda p, q, draft, rng: None)
    refused("holds float64: allowed are integers", lambda p, q, draft, rng: [0.5])
    refused("allowed are tokens, and -1 after them", lambda p, q, draft, rng: [-1, 2])
    refused("weight 0 is negative", lambda p, q, draft, rng: [rng.choose([-1.0, 2.0])])
    refused("no weight is positive", lambda p, q, draft, rng: [rng.choose(np.zeros(3))])
    refused("not a finite number", lambda p, q, draft, rng: [rng.choose([np.nan, 1.0])])
    refused("vocab is 1, but must be at least 2", vocab=1)
    refused("k: 0 is out of range", k=0)
    refused("sequences are enumerated, at most", vocab=60, k=9)
    refused("detect is 0.9: allowed is", detect=0.9)
    refused("dtype is int64: allowed are float64 and float32", dtype=np.int64)
    refused("seed: -1 is out of range", seed=-1)


def test_rng_ends_with_its_call():
    kept = []

    def keeps(p, q, draft, rng):
        kept.append(rng)
        return right(p, q, draft, rng)

    assert specdec.certify(keeps)
    with pytest.raises(RuntimeError, match="only while the call"):
        kept[0].uniform()


def test_rng_answers_on_its_own_thread_alone():
    def elsewhere(p, q, draft, rng):
        with ThreadPoolExecutor(1) as pool:
            return [pool.submit(rng.choose, p[0]).result()]

    with pytest.raises(RuntimeError, match="on the thread of that call"):
        specdec.certify(elsewhere)


def test_a_certificate_within_a_certificate():
    inner = []

    def nested(p, q, draft, rng):
        if not inner:
            inner.append(specdec.certify(right, vocab=2, k=1))
        return right(p, q, draft, rng)

    assert specdec.certify(nested).exact and inner[0].exact


pytest_plugins = ["pytester"]


def test_pytest_shows_the_certificate(pytester):
    pytester.makepyfile(
        """
        import specdec_harness as specdec

        def test_mine():
            assert specdec.exact(lambda p, q, draft, rng: [rng.choose(q[0])])
        """
    )
    shown = pytester.runpytest_subprocess("-p", "no:cacheprovider").stdout.str()
    assert "wrong: the joint distribution of K + 1 tokens" in shown
    assert "worst case:" in shown and "likely bug: " in shown
