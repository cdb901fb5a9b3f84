"""DSpark heads against a recursion in numpy that computes one block after the other.

Skipped without torch and transformers (requirements-torch.txt)."""

import json

import numpy as np
import pytest
import specdec_harness as specdec
from specdec_harness import adapters, tape

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
save_file = pytest.importorskip("safetensors.torch").save_file
heads = pytest.importorskip("heads")

VOCAB, WIDTH, LAYERS, HEADS, KV_HEADS, HEAD, MLP = 60, 32, 5, 4, 2, 8, 48
BLOCK, RANK, MASK, TAPS, DEPTH = 5, 6, 59, [-1, 1, 3], 2
EPS = 1e-6
PROMPT = np.array([3, 1, 4, 15, 9, 26])
TOKENS = np.array([5, 35, 8, 9, 7, 9, 32, 38])
SIZES = dict(
    vocab_size=VOCAB,
    hidden_size=WIDTH,
    intermediate_size=MLP,
    num_attention_heads=HEADS,
    num_key_value_heads=KV_HEADS,
    head_dim=HEAD,
    rms_norm_eps=EPS,
    rope_theta=10000.0,
    max_position_embeddings=128,
    tie_word_embeddings=False,
)
CONFIG = dict(
    SIZES,
    architectures=["Qwen3DSparkModel"],
    num_hidden_layers=DEPTH,
    block_size=BLOCK,
    mask_token_id=MASK,
    target_layer_ids=TAPS,
    num_anchors=4,
    markov_rank=RANK,
    markov_head_type="vanilla",
    enable_confidence_head=True,
    confidence_head_with_markov=True,
)
#: Of sums of a few hundred terms, in single precision.
ROUNDING = 1e-4


@pytest.fixture(scope="module")
def target():
    config = transformers.Qwen3Config(**SIZES, num_hidden_layers=LAYERS)
    return heads.random_weights(transformers.Qwen3ForCausalLM(config))


def head_weights(config):
    rng = np.random.default_rng(1)

    def matrix(*shape):
        return rng.normal(0, 0.25, shape)

    weights = {"fc": matrix(WIDTH, len(TAPS) * WIDTH), "hidden_norm": 1 + matrix(WIDTH)}
    weights |= {"norm": 1 + matrix(WIDTH), "embed_tokens": matrix(VOCAB, WIDTH)}
    weights["lm_head"] = matrix(VOCAB, WIDTH)
    for i in range(DEPTH):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            weights[f"layers.{i}.{norm}"] = 1 + matrix(WIDTH)
        for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            weights[f"layers.{i}.self_attn.{name}_proj"] = matrix(heads * HEAD, WIDTH)
        for name in ("q", "k"):
            weights[f"layers.{i}.self_attn.{name}_norm"] = 1 + matrix(HEAD)
        weights[f"layers.{i}.self_attn.o_proj"] = matrix(WIDTH, HEADS * HEAD)
        for name in ("gate", "up"):
            weights[f"layers.{i}.mlp.{name}_proj"] = matrix(MLP, WIDTH)
        weights[f"layers.{i}.mlp.down_proj"] = matrix(WIDTH, MLP)
    weights["markov_head.markov_w1"] = 2 * matrix(VOCAB, RANK)
    weights["markov_head.markov_w2"] = 2 * matrix(VOCAB, RANK)
    if config["markov_head_type"] == "gated":
        weights["markov_head.gate_proj"] = matrix(RANK, WIDTH + RANK)
        weights["markov_head.gate_proj.bias"] = matrix(RANK)
    if config["markov_head_type"] == "rnn":
        weights["markov_head.joint_proj"] = matrix(3 * RANK, 2 * RANK + WIDTH)
        weights["markov_head.joint_proj.bias"] = matrix(3 * RANK)
    if config["enable_confidence_head"]:
        own = RANK if config["confidence_head_with_markov"] else 0
        weights["confidence_head.proj"] = matrix(1, WIDTH + own)
        weights["confidence_head.proj.bias"] = matrix(1)
    return weights


def written(folder, weights, config):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    names = {name: name if name.endswith(".bias") else f"{name}.weight" for name in weights}
    tensors = {names[name]: torch.tensor(own).float() for name, own in weights.items()}
    save_file(tensors, folder / "model.safetensors")
    return folder


def rms(x, weight):
    return heads.rms(x, weight, EPS)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Recursion:
    """A head that drafts one block, from a target that has read the tokens before it alone."""

    def __init__(self, weights, config, target):
        self.w, self.kind, self.target = weights, config["markov_head_type"], target
        self.with_markov = config["confidence_head_with_markov"]

    def context(self, ids):
        with torch.no_grad():
            states = self.target(torch.tensor(ids)[None], output_hidden_states=True).hidden_states
        taps = [states[tap + 1][0].numpy().astype(float) for tap in TAPS]
        return rms(np.concatenate(taps, axis=-1) @ self.w["fc"].T, self.w["hidden_norm"])

    def heads(self, layer, name, row, position):
        split = (self.w[f"{layer}.self_attn.{name}_proj"] @ row).reshape(-1, HEAD)
        if name == "v":
            return split
        return heads.rotated(rms(split, self.w[f"{layer}.self_attn.{name}_norm"]), position)

    def block(self, known):
        """The rows of the block after all but the last of the known tokens."""
        anchor, context = len(known) - 1, self.context(known[:-1])
        rows = [self.w["embed_tokens"][token] for token in [known[-1]] + [MASK] * (BLOCK - 1)]
        for i in range(DEPTH):
            layer = f"layers.{i}"
            normed = [rms(row, self.w[f"{layer}.input_layernorm"]) for row in rows]
            read = list(enumerate([*context, *normed]))
            keys = np.stack([self.heads(layer, "k", row, at) for at, row in read])
            values = np.stack([self.heads(layer, "v", row, at) for at, row in read])
            after = []
            for at, (row, own) in enumerate(zip(rows, normed)):
                seen = heads.attended(self.heads(layer, "q", own, anchor + at), keys, values)
                x = row + self.w[f"{layer}.self_attn.o_proj"] @ seen
                y = rms(x, self.w[f"{layer}.post_attention_layernorm"])
                gate, up, down = (self.w[f"{layer}.mlp.{n}_proj"] for n in ("gate", "up", "down"))
                gate = gate @ y
                after.append(x + down @ (gate * sigmoid(gate) * (up @ y)))
            rows = after
        return [rms(row, self.w["norm"]) for row in rows]

    def draft(self, known, following, k):
        """Logits and confidences of the draft that the following tokens continue."""
        part = lambda name: self.w["markov_head." + name]  # noqa: E731
        logits, confidences, state = [], [], np.zeros(RANK)
        for row, before in zip(self.block(known)[:k], [known[-1], *following]):
            token = part("markov_w1")[before]
            latent = token
            if self.kind == "gated":
                gate = part("gate_proj") @ np.concatenate([row, token]) + part("gate_proj.bias")
                latent = token * sigmoid(gate)
            if self.kind == "rnn":
                given = np.concatenate([state, token, row])
                thirds = np.split(part("joint_proj") @ given + part("joint_proj.bias"), 3)
                gate = sigmoid(thirds[0])
                state = gate * state + (1 - gate) * np.tanh(thirds[1])
                latent = np.tanh(thirds[2])
            logits.append(self.w["lm_head"] @ row + part("markov_w2") @ latent)
            seen = np.concatenate([row, token]) if self.with_markov else row
            own = self.w["confidence_head.proj"] @ seen + self.w["confidence_head.proj.bias"]
            confidences.append(sigmoid(own[0]))
        return np.stack(logits), np.array(confidences)

    def drafts(self, k):
        """Those at each token of the completion, as far as it goes."""
        found = []
        for at in range(len(TOKENS)):
            known = np.concatenate([PROMPT, TOKENS[:at]])
            found.append(self.draft(known, TOKENS[at:-1], k))
        return found


@pytest.mark.parametrize("kind", ["vanilla", "gated", "rnn"])
def test_drafts_are_those_of_the_recursion(target, tmp_path, kind):
    config = {**CONFIG, "markov_head_type": kind}
    weights = head_weights(config)
    folder = written(tmp_path / "head", weights, config)
    for k, rows in ((3, 3), (8, BLOCK)):
        expected = Recursion(weights, config, target).drafts(k)
        found = list(adapters.dspark(folder, target)(PROMPT, TOKENS, k))
        assert len(found) == len(expected) == len(TOKENS)
        for draft, (own, _) in zip(found, expected):
            assert draft.shape == (rows, VOCAB)
            assert draft[: len(own)] == pytest.approx(own, abs=ROUNDING)


@pytest.mark.parametrize("with_markov", [True, False])
def test_a_draft_ends_before_the_first_token_of_little_confidence(target, tmp_path, with_markov):
    config = {**CONFIG, "confidence_head_with_markov": with_markov}
    weights = head_weights(config)
    folder = written(tmp_path / "head", weights, config)
    expected = Recursion(weights, config, target).drafts(BLOCK)
    confidences = np.concatenate([own for _, own in expected])
    least = float(np.median(confidences))
    # No confidence is so near that rounding decides.
    least += 0.5 * float(np.min(confidences[confidences > least]) - least)
    found = list(adapters.dspark(folder, target, least_confidence=least)(PROMPT, TOKENS, BLOCK))
    lengths = set()
    for draft, (logits, own) in zip(found, expected):
        ends = np.flatnonzero(own < least)
        if len(ends) > 0:
            lengths.add(int(ends[0]))
            assert draft == pytest.approx(logits[: ends[0]], abs=ROUNDING)
    assert 0 in lengths and len(lengths) > 1


def test_its_tape_depends_on_where_drafts_begin(target, tmp_path):
    weights = head_weights(CONFIG)
    folder = written(tmp_path / "head", weights, CONFIG)
    path = tmp_path / "t.jsonl"
    with tape.write(path, target={"name": "tiny", "vocab": VOCAB}) as lines:
        logits = adapters.causal_lm(target)(PROMPT, TOKENS, 0)
        log_p = lines.log_probs(PROMPT, TOKENS, logits)
        lines.sequence(PROMPT, TOKENS, log_p, prompt="a", max_tokens=40)
        for least in (0.0, 0.5):
            head = adapters.dspark(folder, target, least_confidence=least)
            name = lines.drafter("dspark", params={"least_confidence": least}, most=BLOCK)
            lines.score_with(name, head, BLOCK)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    scores = [line["score"] for line in lines if "score" in line]
    for at, (logits, confidences) in enumerate(Recursion(weights, CONFIG, target).drafts(BLOCK)):
        whole, cut = (score["starts"][at] for score in scores)
        log_q = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        own = log_q[np.arange(len(log_q)), TOKENS[at : at + BLOCK]]
        assert whole["q"] == pytest.approx(own, abs=ROUNDING)
        assert cut["q"] == pytest.approx(own[: cut["n"]], abs=ROUNDING)
        assert (confidences[: cut["n"]] >= 0.5).all()
    starts = [draft["q"] for draft in scores[0]["starts"]]
    assert abs(starts[1][1] - starts[2][0]) > 0.01
    found = specdec.forecast(path, ks=[1, BLOCK], rules=["rejection"])
    assert 1.0 < found["block_efficiency"][0] <= found["block_efficiency"][1]


def test_heads_that_would_be_misread_are_refused(target, tmp_path):
    weights = head_weights(CONFIG)

    def refused(match, config=CONFIG, tensors=weights, **options):
        folder = written(tmp_path / str(len(list(tmp_path.iterdir()))), tensors, config)
        with pytest.raises(ValueError, match=match):
            adapters.dspark(folder, target, **options)(PROMPT[:0], TOKENS, 2)

    gemma = {**CONFIG, "architectures": ["Gemma4DSparkModel"]}
    refused(r"architectures \['Gemma4DSparkModel'\]: allowed is Qwen3DSparkModel", gemma)
    last = {**CONFIG, "target_layer_ids": [1, 4]}
    refused("has 4 in target_layer_ids: allowed is -1 to 3", last)
    less = {name: own for name, own in weights.items() if name != "layers.1.self_attn.k_norm"}
    refused("has no tensor layers.1.self_attn.k_norm.weight", tensors=less)
    gated = {**CONFIG, "markov_head_type": "gated"}
    refused("has no tensor markov_head.gate_proj.weight", gated)
    more = {**weights, "d2t": np.zeros(3)}
    refused("has the tensor d2t.weight, which a DSpark head lacks", tensors=more)
    refused("least_confidence is 2: allowed is a number from 0 to 1", least_confidence=2)
    unsure = {**CONFIG, "enable_confidence_head": False}
    refused(
        "has no confidences: allowed is least_confidence = 0",
        *(unsure, head_weights(unsure)),
        least_confidence=0.5,
    )
    refused("the prompt is empty")
