"""EAGLE-3 heads against a recursion in numpy that computes one draft after the other.

Skipped without torch and transformers (requirements-torch.txt)."""

import json

import numpy as np
import pytest
from specdec_harness import adapters

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
save_file = pytest.importorskip("safetensors.torch").save_file
heads = pytest.importorskip("heads")

VOCAB, DRAFT_VOCAB, WIDTH, LAYERS, HEADS, KV_HEADS, HEAD, MLP = 60, 25, 32, 7, 4, 2, 8, 48
EPS = 1e-5
PROMPT = np.array([3, 1, 4, 15, 9, 26])
TOKENS = np.array([5, 35, 8, 9, 7, 9, 32, 38])
LAYER = dict(
    hidden_size=WIDTH,
    intermediate_size=MLP,
    num_hidden_layers=1,
    num_attention_heads=HEADS,
    num_key_value_heads=KV_HEADS,
    head_dim=HEAD,
    vocab_size=VOCAB,
    rms_norm_eps=EPS,
    rope_theta=10000.0,
    max_position_embeddings=128,
    tie_word_embeddings=False,
)


@pytest.fixture(scope="module")
def target():
    config = transformers.LlamaConfig(**{**LAYER, "num_hidden_layers": LAYERS})
    return heads.random_weights(transformers.LlamaForCausalLM(config))


def head_weights(options):
    rng = np.random.default_rng(1)

    def matrix(*shape):
        return rng.normal(0, 0.25, shape)

    weights = {"fc": matrix(WIDTH, 3 * WIDTH), "norm": 1 + matrix(WIDTH)}
    weights["lm_head"] = matrix(DRAFT_VOCAB, WIDTH)
    for norm in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        weights["midlayer." + norm] = 1 + matrix(WIDTH)
    for name, rows in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
        weights[f"midlayer.self_attn.{name}_proj"] = matrix(rows * HEAD, 2 * WIDTH)
    weights["midlayer.self_attn.o_proj"] = matrix(WIDTH, HEADS * HEAD)
    for name in ("gate", "up"):
        weights[f"midlayer.mlp.{name}_proj"] = matrix(MLP, WIDTH)
    weights["midlayer.mlp.down_proj"] = matrix(WIDTH, MLP)
    if options.get("fc_norm"):
        weights |= {f"fc_norm.{i}": 1 + matrix(WIDTH) for i in range(3)}
    if options.get("norm_before_fc"):
        weights["input_norm"] = 1 + matrix(3 * WIDTH)
    ids = np.sort(rng.choice(VOCAB, DRAFT_VOCAB, replace=False))
    return weights, ids


def written(folder, weights, ids, config, rename=lambda name: name):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {
        rename(name) + ".weight": torch.tensor(value, dtype=torch.float32)
        for name, value in weights.items()
    }
    tensors["d2t"] = torch.tensor(ids - np.arange(DRAFT_VOCAB))
    save_file(tensors, folder / "model.safetensors")
    return folder


def rms(x, weight):
    return heads.rms(x, weight, EPS)


class Recursion:
    """A head whose rows are fed one by one; `cache` has a key and a value for each position."""

    def __init__(self, weights, ids, options, target, taps):
        self.w, self.ids, self.options, self.taps = weights, ids, options, taps
        self.embed = target.model.embed_tokens.weight.detach().numpy().astype(float)
        self.target, self.cache = target, []

    def fused(self, ids):
        with torch.no_grad():
            states = self.target(torch.tensor(ids)[None], output_hidden_states=True).hidden_states
        parts = [states[tap][0].numpy().astype(float) for tap in self.taps]
        if self.options.get("fc_norm"):
            parts = [rms(part, self.w[f"fc_norm.{i}"]) for i, part in enumerate(parts)]
        both = np.concatenate(parts, axis=-1)
        if self.options.get("norm_before_fc"):
            both = rms(both, self.w["input_norm"])
        return both @ self.w["fc"].T

    def row(self, token, hidden, position):
        part = lambda name: self.w["midlayer." + name]  # noqa: E731
        split = lambda name, x: (part(f"self_attn.{name}_proj") @ x).reshape(-1, HEAD)  # noqa: E731
        normed = rms(hidden, part("hidden_norm"))
        x = np.concatenate([rms(self.embed[token], part("input_layernorm")), normed])
        self.cache[position:] = [(heads.rotated(split("k", x), position), split("v", x))]
        keys, values = (np.stack(each) for each in zip(*self.cache))
        seen = heads.attended(heads.rotated(split("q", x), position), keys, values)
        residual = normed if self.options.get("norm_before_residual") else hidden
        x = residual + part("self_attn.o_proj") @ seen
        y = rms(x, part("post_attention_layernorm"))
        gate = part("mlp.gate_proj") @ y
        x = x + part("mlp.down_proj") @ (gate / (1 + np.exp(-gate)) * (part("mlp.up_proj") @ y))
        out = rms(x, self.w["norm"])
        logits = np.full(VOCAB, -np.inf)
        logits[self.ids] = self.w["lm_head"] @ out
        return logits, out if self.options.get("norm_output") else x

    def drafts(self, prompt, tokens, k):
        """The logits of the draft at each token of the completion, as far as it follows it."""
        known, found = np.concatenate([prompt, tokens]), []
        fused = self.fused(known[:-1])
        for start in range(len(prompt), len(known)):
            self.cache = []
            for t in range(start - 1):
                logits, back = self.row(known[t + 1], fused[t], t)
            draft = [logits]
            for drafted in known[start : start + k - 1][: len(known) - start - 1]:
                logits, back = self.row(drafted, back, start - 1 + len(draft) - 1)
                draft.append(logits)
            found.append(np.stack(draft))
        return found


OPTIONS = [
    {},
    {"norm_before_residual": True, "fc_norm": True},
    {"norm_output": True, "norm_before_fc": True},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_drafts_are_those_of_the_recursion(target, tmp_path, options):
    weights, ids = head_weights(options)
    recursion = Recursion(weights, ids, options, target, [2, LAYERS // 2, LAYERS - 3])
    expected = recursion.drafts(PROMPT, TOKENS, 4)
    safeailab = {**LAYER, "draft_vocab_size": DRAFT_VOCAB, "model_type": "llama", **options}
    speculators = {**options, "transformer_layer_config": {**LAYER, "model_type": "llama"}}
    folders = [
        written(tmp_path / "a", weights, ids, safeailab),
        written(
            *(tmp_path / "b", weights, ids, speculators),
            rename=lambda name: name.replace("midlayer.", "layers.0."),
        ),
    ]
    for folder in folders:
        found = list(adapters.eagle3(folder, target)(PROMPT, TOKENS, 4))
        assert len(found) == len(expected) == len(TOKENS)
        for draft, own in zip(found, expected):
            assert draft.shape == (4, VOCAB)
            # Of sums of a few hundred terms, in single precision.
            assert draft[: len(own)] == pytest.approx(own, abs=1e-4)


def test_taps_are_those_of_the_configuration(target, tmp_path):
    weights, ids = head_weights({})
    nested = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 2, 4]}}
    cases = [
        ({"eagle_aux_hidden_state_layer_ids": [1, 3, 5]}, None, [1, 3, 5]),
        (nested, None, [1, 3, 5]),
        (nested, [0, 2, 4], [0, 2, 4]),
    ]
    for number, (config, taps, expected) in enumerate(cases):
        folder = written(tmp_path / str(number), weights, ids, {**LAYER, **config})
        found = list(adapters.eagle3(folder, target, taps)(PROMPT, TOKENS, 2))
        own = Recursion(weights, ids, {}, target, expected).drafts(PROMPT, TOKENS, 2)
        assert found[3] == pytest.approx(own[3], abs=1e-4)


def test_heads_that_would_be_misread_are_refused(target, tmp_path):
    weights, ids = head_weights({})
    more = {**weights, "layers.1.norm": weights["norm"]}
    with pytest.raises(ValueError, match="has the tensor layers.1.norm.weight, which an EAGLE-3"):
        adapters.eagle3(written(tmp_path / "a", more, ids, LAYER), target)
    less = {name: value for name, value in weights.items() if name != "midlayer.hidden_norm"}
    with pytest.raises(ValueError, match="has no tensor layers.0.hidden_norm.weight"):
        adapters.eagle3(written(tmp_path / "d", less, ids, LAYER), target)
    folder = written(tmp_path / "b", weights, ids, LAYER)
    with pytest.raises(ValueError, match="a tap is 7: allowed is 0 to 6, after that many layers"):
        adapters.eagle3(folder, target, [2, 3, 7])
    kept = {name + ".weight": torch.tensor(value) for name, value in weights.items()}
    save_file(kept, folder / "model.safetensors")
    with pytest.raises(ValueError, match="no d2t, and its 25 tokens are not the 60 of the target"):
        adapters.eagle3(folder, target)
    with pytest.raises(ValueError, match="fewer than two tokens"):
        folder = written(tmp_path / "c", weights, ids, LAYER)
        adapters.eagle3(folder, target)(PROMPT[:1], TOKENS, 2)
