"""Tapes written from Python: what they forecast, what is refused, and what stays of them."""

import functools
import json
import subprocess
import sys

import numpy as np
import pytest
import specdec_harness as specdec
from specdec_harness import tape

RNG = np.random.default_rng(5)
P, Q = RNG.dirichlet(np.ones(6), size=(2, 6))
PROMPT = [4, 2]


def drawn(rows, first, count):
    """Tokens of a chain in which a row of probabilities follows each token."""
    tokens = [first]
    for _ in range(count):
        tokens.append(int(RNG.choice(6, p=rows[tokens[-1]])))
    return tokens[1:]


COMPLETIONS = [drawn(P, PROMPT[-1], count) for count in (5, 9, 17)]


def along(rows, tokens):
    """The logarithms of the probabilities of the tokens of a completion."""
    before = [PROMPT[-1], *tokens[:-1]]
    return np.log(rows[before, tokens])


def begun(path, **more):
    return tape.write(path, target={"name": "chain", "vocab": 6}, **more)


def filled(path, limits=(None, None, None), **more):
    """A tape of the completions, without drafters."""
    written = begun(path, **more)
    for number, (tokens, limit) in enumerate(zip(COMPLETIONS, limits)):
        found = written.sequence(
            PROMPT, tokens, along(P, tokens), prompt=f"prompt-{number}", max_tokens=limit
        )
        assert found == number
    return written


def forecast(path, rule="rejection", ks=(1, 3, 5)):
    found = specdec.forecast(path, ks=list(ks), rules=[rule])
    return {name: np.asarray(found[name]) for name in ("rounds", "accepted", "proposed")}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, column in one.items():
        assert column == pytest.approx(other[name], rel=1e-12), name


def q_from(start_matters):
    """log q of the next token. A draft may be better at its second token."""

    def q(context, start):
        drafted = len(context) - start
        rows = P if start_matters and drafted == 1 else Q
        return np.log(rows[context[-1]])

    return q


@pytest.mark.parametrize("limits", [(None, None, None), (6, 10, 40)])
def test_three_ways_to_score_a_chain_agree(tmp_path, limits):
    with filled(tmp_path / "columns.jsonl", limits) as written:
        head = written.drafter("mine")
        for number, tokens in enumerate(COMPLETIONS):
            written.score(head, number, log_q=along(Q, tokens))
    with filled(tmp_path / "starts.jsonl", limits) as written:
        written.score_with(written.drafter("mine", most=5), tape.each_token(q_from(False)), 5)
    with filled(tmp_path / "rows.jsonl", limits) as written:
        rows = lambda prompt, tokens, k: np.log(Q[[prompt[-1], *tokens[:-1]]])  # noqa: E731
        written.score_with(written.drafter("mine"), rows, 5)
    lengths, most = [len(tokens) for tokens in COMPLETIONS], [limit or 0 for limit in limits]
    columns = specdec.forecast(
        np.concatenate([along(P, tokens) for tokens in COMPLETIONS]),
        np.concatenate([along(Q, tokens) for tokens in COMPLETIONS]),
        lengths,
        [1, 3, 5],
        rules=["rejection"],
        max_tokens=[max(pair) for pair in zip(lengths, most)],
    )
    expected = {name: columns[name] for name in ("rounds", "accepted", "proposed")}
    for name in ("columns", "starts", "rows"):
        assert_same(forecast(tmp_path / f"{name}.jsonl"), expected)


def test_a_draft_that_depends_on_its_start_has_its_own_rounds(tmp_path):
    """The second token of a draft is always accepted if the first one is."""
    with filled(tmp_path / "t.jsonl") as written:
        written.score_with(written.drafter("head", most=2), tape.each_token(q_from(True)), 2)
    found = specdec.forecast(tmp_path / "t.jsonl", ks=[2], rules=["rejection"])
    ratio = [np.minimum(1.0, np.exp(along(Q, t) - along(P, t))) for t in COMPLETIONS]

    def rounds(kept):
        """Expected rounds and accepted tokens, from the back; a draft leaves room for one more."""
        expected = np.zeros((len(kept) + 1, 2))
        for at in reversed(range(len(kept))):
            room = min(2, len(kept) - at - 1)
            share = kept[at] if room > 0 else 0.0
            expected[at] = [1, share * room]
            expected[at] += share * expected[at + room + 1] + (1 - share) * expected[at + 1]
        return expected[0]

    expected = sum(rounds(kept) for kept in ratio)
    assert found["rounds"] == pytest.approx([expected[0]], rel=1e-12)
    assert found["accepted"] == pytest.approx([expected[1]], rel=1e-12)


def test_greedy_drafts_are_given_as_what_they_propose(tmp_path):
    best = Q.argmax(axis=1)

    def proposed(tokens, at, k):
        draft, last = [], [PROMPT[-1], *tokens][at]
        while len(draft) < k:
            draft.append(last := int(best[last]))
        return draft

    one_hot = np.where(np.arange(6) == best[:, None], 0.0, -np.inf)
    paths = [tmp_path / "proposed.jsonl", tmp_path / "rows.jsonl"]
    with filled(paths[0]) as written:
        head = written.drafter("mine", most=4)
        for number, tokens in enumerate(COMPLETIONS):
            room = range(len(tokens))
            drafts = [proposed(tokens, at, min(4, len(tokens) - at - 1)) for at in room]
            written.score(head, number, greedy=drafts)
    with filled(paths[1]) as written:
        q = lambda context, start: one_hot[context[-1]]  # noqa: E731
        written.score_with(written.drafter("mine", most=4), tape.each_token(q), 4)
    both = [forecast(path, ks=(1, 2, 4)) for path in paths]
    assert_same(*both)
    assert 0 < both[0]["accepted"][2] < both[0]["rounds"][2]


def test_sampling_settings_apply_to_logits(tmp_path):
    samplings = [{"temperature": 0.5}, {"temperature": 1.0, "top_k": 2}]
    tokens = COMPLETIONS[1]
    before = [PROMPT[-1], *tokens[:-1]]
    with begun(tmp_path / "t.jsonl", samplings=samplings) as written:
        cold = written.log_probs(PROMPT, tokens, np.log(P[before]), sampling=0)
        top = written.log_probs(PROMPT, tokens, np.log(P[before]), sampling=1)
        written.sequence(PROMPT, tokens, cold, prompt="a")
        hot = written.drafter("mine", params={"draft_temperature": 2.0})
        written.score_with(hot, lambda *_: np.log(Q[before]), 4)
    power = lambda rows, of: rows**of / (rows**of).sum(axis=1, keepdims=True)  # noqa: E731
    assert cold == pytest.approx(along(power(P, 2.0), tokens))
    kept = np.where(P >= np.sort(P, axis=1)[:, [-2]], P, 0.0)
    with np.errstate(divide="ignore"):
        assert top == pytest.approx(along(kept / kept.sum(axis=1, keepdims=True), tokens))
    last = json.loads((tmp_path / "t.jsonl").read_text().splitlines()[-1])
    assert last["score"]["log_q"] == pytest.approx(along(power(Q, 0.5), tokens))


def test_a_tape_is_continued_and_never_overwritten(tmp_path):
    path = tmp_path / "t.jsonl"
    filled(path).close()
    whole = path.read_bytes()
    with pytest.raises(FileExistsError):
        begun(path)
    path.write_bytes(whole + b'{"score": {"draf')  # what a crash leaves
    with begun(path, append=True) as written:
        with pytest.raises(BlockingIOError):
            begun(path, append=True)
        head = written.drafter("mine")
        written.score_with(head, tape.each_token(q_from(False)), 3, sequences=[1])
    assert path.read_bytes().startswith(whole + b'{"drafter":')
    assert specdec.forecast(path, ks=[1], rules=["rejection"])["texts"].tolist() == [1]
    path.write_bytes(b"\x1f\x8b" + whole)
    with pytest.raises(ValueError, match="no tape of lines: unpack it"):
        begun(path, append=True)


def test_what_a_reader_would_refuse_is_not_written(tmp_path):
    path = tmp_path / "t.jsonl"
    written = filled(path, samplings=[{}])
    head = written.drafter("mine", most=4)
    whole = path.read_bytes()
    tokens = COMPLETIONS[0]
    starts = [[-1.0]] * len(tokens)

    def refused(why, add, *given, **more):
        with pytest.raises(ValueError, match=why) as found:
            add(*given, **more)
        assert "\n" not in str(found.value)
        assert path.read_bytes() == whole

    refused("token 6 lies outside a vocabulary of 6", written.sequence, [6], [1], prompt="a")
    refused('"log_p" has 1 entries for 2 tokens', written.sequence, [1], [1, 2], [-1.0], prompt="a")
    refused(
        '"log_p" of token 1 is 0.5: no probability is above 1',
        *(written.sequence, [1], [1, 2], [-1.0, 0.5]),
        prompt="a",
    )
    refused("log_p.1. is not a number", written.sequence, [1], [1, 2], [0, np.nan], prompt="a")
    refused(
        "the target draws token 1 of the completion with probability 0",
        *(written.sequence, [1], [1, 2], [-1.0, -np.inf]),
        prompt="a",
    )
    refused(
        '"sampling" is 1, and the tape has 1', written.sequence, [1], [1], prompt="a", sampling=1
    )
    refused("prompt_tokens holds float64", written.sequence, [0.5], [1], prompt="a")
    refused("give one of them", written.score, head, 0)
    refused("give one of them", written.score, head, 0, log_q=[-1.0] * 5, starts=starts)
    refused('"starts" has 4 entries for 5 tokens', written.score, head, 0, starts=starts[:4])
    refused('"drafter" is 1, and 1 came before', written.score, 1, 0, starts=starts)
    refused('"text" is 3, and 3 came before', written.score, head, 3, log_q=[-1.0])
    refused('"race" of token 0 is 2', written.score, head, 0, starts=starts, race=[2.0] * 5)
    refused('"overlap" of token 0 is -1', written.score, head, 0, starts=starts, overlap=[-1.0] * 5)
    refused("sequence 3 is not on the tape", written.score, head, 3, greedy=[[1]])
    refused("logits.0.: ", written.score_with, head, lambda *_: np.full((5, 6), np.nan), 4)
    refused("more rows than 5 tokens|logits have", written.score_with, head, lambda *_: [[1.0]], 4)
    more = [np.log([Q[0]])] * 6
    refused("more drafts than the 5 tokens", written.score_with, head, lambda *_: iter(more), 4)
    both = functools.partial(written.score_with, target=lambda *_: np.zeros((5, 6)))
    refused("q that depends on the context alone", both, head, lambda *_: iter(more), 4)
    refused(r"allowed is .5, V. for both", both, head, lambda *_: np.zeros((4, 6)), 4)
    refused("unknown field `heat`", begun, tmp_path / "other.jsonl", samplings=[{"heat": 1}])
    assert not (tmp_path / "other.jsonl").exists()


def test_nothing_imports_torch_before_a_model_is_used():
    code = "import sys, specdec_harness.adapters; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_numbers_of_servers_are_those_of_the_tokens():
    tokens = [7, 3, 12]
    vllm = [
        None,
        {
            "3": {"logprob": -1.5, "rank": 4, "decoded_token": "a"},
            "9": {"logprob": -0.1, "rank": 1},
        },
        {"12": {"logprob": -0.25, "rank": 1, "decoded_token": "b"}},
    ]
    sglang = [[None, 7, None], [-1.5, 3, None], [-0.25, 12, None]]
    for response in (
        {"choices": [{"prompt_logprobs": vllm}]},
        {"prompt_logprobs": vllm},
        {"text": "", "meta_info": {"input_token_logprobs": sglang}},
    ):
        assert tape.prompt_log_probs(response, tokens).tolist() == [-1.5, -0.25]
        with pytest.raises(ValueError, match="no number for token 2 of the prompt, 13"):
            tape.prompt_log_probs(response, [7, 3, 13])
        with pytest.raises(ValueError, match="has 3 rows and not 2, the number of tokens"):
            tape.prompt_log_probs(response, tokens[:2])
    with pytest.raises(ValueError, match="neither prompt_logprobs .vLLM. nor"):
        tape.prompt_log_probs({"choices": [{"text": "a"}]}, tokens)


def test_llama_cpp_returns_the_numbers_of_each_next_token():
    tokens = [7, 3, 12, 4]
    bodies = list(tape.llama_cpp_requests(tokens, letter=66))
    assert [body["prompt"] for body in bodies] == [[7], [7, 3], [7, 3, 12]]
    for body in bodies:
        assert (body["n_predict"], body["logit_bias"]) == (1, [[66, 1e4]])
        assert body["n_probs"] > 10**9 and not body["post_sampling_probs"]

    def response(logs):
        top = [{"id": token, "token": "?", "logprob": log} for token, log in logs.items()]
        drawn = {"id": 66, "token": "a", "logprob": -5.0, "top_logprobs": top}
        return {"content": "a", "completion_probabilities": [drawn]}

    smallest = float(np.finfo(np.float32).min)
    answers = [{9: -0.1, 3: -1.5}, {12: -0.25, 3: -3.0}, {12: -0.5, 4: smallest}]
    responses = [response(logs) for logs in answers]
    assert tape.prompt_log_probs(responses, tokens).tolist() == [-1.5, -0.25, -np.inf]
    with pytest.raises(ValueError, match="no number for token 2 of the prompt, 9"):
        tape.prompt_log_probs(responses, [7, 3, 9, 4])
    with pytest.raises(ValueError, match="has 3 rows and not 4, the number of tokens"):
        tape.prompt_log_probs(responses[:2], tokens)
    for broken in ({"content": "a"}, {"completion_probabilities": []}):
        with pytest.raises(ValueError, match="response 1 has no completion_probabilities with"):
            tape.prompt_log_probs([responses[0], broken, responses[2]], tokens)
