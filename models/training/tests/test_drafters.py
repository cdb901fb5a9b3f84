"""The drafters' rows, against numpy and against themselves computed in another order."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from conftest import VOCAB
from evaluate import load_folder
from heads.chain import DRAFTERS
from heads.dspark import BLOCK, RANK
from heads.export import export
from heads.parts import draw
from protocol.drafters import new_drafter
from protocol.evaluate import load_drafter
from protocol.grid import DRAFTERS as NAMES
from protocol.grid import Grid, Group
from protocol.objective import Teacher

TAPS, MASK = (2, 4, 6), 159
GRID = Grid(48, 2, 2, 3, 1, 0.5, TAPS, MASK, (), ())
GROUP = Group("a", "kl", "off", "scratch", 3, (96,))
ANCHORS = torch.tensor([3, 19, 35])
#: Sums of some hundred f32 terms in another order, of numbers of about one.
ROUNDING = 2e-5


@pytest.fixture(scope="module")
def text():
    return torch.from_numpy(np.random.default_rng(7).integers(2, VOCAB, (2, 48)))


@pytest.fixture(scope="module")
def teacher(pair):
    return Teacher(load_folder(pair / "target"), TAPS)


def drafter(kind, pair, features):
    """A drafter all of whose weights show."""
    head = new_drafter(kind, GRID, GROUP, load_folder(pair / "draft"), features).eval()
    with torch.no_grad():
        for name, p in head.named_parameters():
            p.copy_(p + 0.1 * torch.randn_like(p) if p.ndim == 1 else 6 * p)
    return head


def rms(x, weight, eps):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


def turn(x, positions, theta):
    """Rotate (rows, heads, dim) to positions."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate((a * cos - b * sin, b * cos + a * sin), -1)


def numpy_block(config, weights, states, anchor, position, given):
    """Logits (BLOCK, vocabulary) and confidence logits of one block, from the published formula.

    ``states`` are the taps (tokens before the anchor, taps · width); ``given`` the drafted tokens.
    """
    c, eps, theta = config, config["rms_norm_eps"], config["rope_theta"]
    heads, held, dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    w = {name.removesuffix(".weight"): tensor for name, tensor in weights.items()}
    context = rms(states @ w["fc"].T, w["hidden_norm"], eps)
    tokens = [anchor] + [c["mask_token_id"]] * (c["block_size"] - 1)
    x, places = w["embed_tokens"][tokens], position + np.arange(c["block_size"])
    for i in range(c["num_hidden_layers"]):
        part = lambda name: w[f"layers.{i}.{name}"]
        u = rms(x, part("input_layernorm"), eps)
        rows = np.concatenate((context, u))
        q = (u @ part("self_attn.q_proj").T).reshape(len(u), heads, dim)
        k = (rows @ part("self_attn.k_proj").T).reshape(len(rows), held, dim)
        v = (rows @ part("self_attn.v_proj").T).reshape(len(rows), held, dim)
        q = turn(rms(q, part("self_attn.q_norm"), eps), places, theta)
        all_places = np.concatenate((np.arange(len(context)), places))
        k = turn(rms(k, part("self_attn.k_norm"), eps), all_places, theta)
        seen = np.zeros_like(q)
        for head in range(heads):
            of = head // (heads // held)
            scores = q[:, head] @ k[:, of].T / np.sqrt(dim)
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            seen[:, head] = scores / scores.sum(-1, keepdims=True) @ v[:, of]
        x = x + seen.reshape(len(u), -1) @ part("self_attn.o_proj").T
        u = rms(x, part("post_attention_layernorm"), eps)
        gate = u @ part("mlp.gate_proj").T
        inner = gate / (1 + np.exp(-gate)) * (u @ part("mlp.up_proj").T)
        x = x + inner @ part("mlp.down_proj").T
    y = rms(x, w["norm"], eps)
    before = w["markov_head.markov_w1"][[anchor, *given]]
    logits = y @ w["lm_head"].T + before @ w["markov_head.markov_w2"].T
    joined = np.concatenate((y, before), -1)
    return logits, joined @ w["confidence_head.proj"][0] + w["confidence_head.proj.bias"]


def test_a_block_is_the_published_formula(pair, text, teacher, tmp_path):
    """Catches: wrong places, masks, norms, taps, Markov tokens; an export that loses the scale."""
    features, *_ = teacher(text)
    head = drafter("dspark", pair, features)
    export(head, pair, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    weights = {n: w.double().numpy() for n, w in load_file(tmp_path / "model.safetensors").items()}
    assert config["mask_token_id"] == MASK and config["markov_rank"] == RANK
    assert config["target_layer_ids"] == [1, 3, 5]
    (tmp_path / "training.json").write_text('{"drafter": "dspark"}')
    exported = load_drafter(tmp_path, features[0].shape[-1])
    _, joined, tokens = exported(text, features, ANCHORS)
    for row in range(len(text)):
        states = np.concatenate([f[row].double().numpy() for f in features], -1)
        for number, anchor in enumerate(ANCHORS.tolist()):
            given = tokens[row, number].tolist()
            assert given == text[row, anchor + 1 : anchor + BLOCK].tolist()
            block = states[:anchor], text[row, anchor].item(), anchor, given
            logits, confidence = numpy_block(config, weights, *block)
            ours = exported.logits(joined[row, number]).detach().numpy()
            assert np.abs(ours - logits).max() < ROUNDING * np.abs(logits).max()
            ours = exported.confidence(joined[row, number]).detach().numpy()
            assert np.abs(ours - confidence).max() < ROUNDING * np.abs(confidence).max()


@pytest.mark.parametrize("kind", NAMES)
def test_an_export_has_the_drafters_weights(kind, pair, text, teacher, tmp_path):
    """Catches: tensors under wrong names, taps that the folder does not name."""
    features, *_ = teacher(text)
    head = drafter(kind, pair, features)
    with torch.no_grad():
        for p in head.parameters():
            p.copy_(p.bfloat16())
        if kind == "dspark":
            head.scale.fill_(0.25)  # a power of two, so that the product is exact
    export(head, pair, tmp_path)
    (tmp_path / "training.json").write_text(json.dumps({"drafter": kind}))
    read = load_drafter(tmp_path, features[0].shape[-1])
    assert read.taps == head.taps
    for ours, theirs in zip(head(text, features, ANCHORS), read(text, features, ANCHORS)):
        if ours is not None:
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("kind", NAMES)
def test_a_drawn_draft_has_the_rows_of_a_text_with_its_tokens(kind, pair, text, teacher):
    """Catches: draws from the wrong row, drafted rows that see other drafts or a wrong place."""
    features, log_p, held = teacher(text)
    head = drafter(kind, pair, features)
    uniforms = torch.rand(2, len(ANCHORS), head.depths - 1, generator=torch.manual_seed(1))
    _, drafted, tokens = head(text, features, ANCHORS, uniforms)
    followed = teacher.follow(held, ANCHORS, tokens).unflatten(1, (len(ANCHORS), -1))
    for number, anchor in enumerate(ANCHORS.tolist()):
        ids = text.clone()
        ids[:, anchor + 1 : anchor + head.depths] = tokens[:, number]
        states, own, _ = teacher(ids)
        verified, rows, same = head(ids, states, ANCHORS)
        assert torch.equal(same[:, number], tokens[:, number])
        torch.testing.assert_close(rows[:, number], drafted[:, number], rtol=1e-4, atol=1e-4)
        rows = rows[:, number]
        if verified is not None:
            rows = torch.cat((verified[:, anchor, None], rows), dim=1)
        again = draw(head.logits(rows[:, : head.depths - 1]), uniforms[:, number])
        assert torch.equal(again, tokens[:, number])
        expected = own[:, anchor + 1 : anchor + head.depths]
        torch.testing.assert_close(followed[:, number], expected, rtol=1e-4, atol=1e-4)
    assert not torch.equal(tokens, head(text, features, ANCHORS)[2])


def test_draws_have_their_distribution():
    """Catches: an inverse that is off by one token."""
    p = torch.tensor([0.5, 0.0, 0.3, 0.2])
    uniforms = (torch.arange(1000) + 0.5) / 1000
    tokens = draw(p.log().expand(1000, -1), uniforms)
    assert torch.bincount(tokens, minlength=4).tolist() == [500, 0, 300, 200]


@pytest.mark.parametrize("kind", NAMES)
def test_loops_draft_what_training_computes(kind, pair, text, teacher):
    """Catches: rows of rejected tokens that stay in a cache, contexts one place late."""
    features, *_ = teacher(text)
    head = drafter(kind, pair, features)
    loop = DRAFTERS[type(head)](head, 2, 64)
    loop.begin(text[:, 0])
    anchor, rejected = 19, text.roll(1, 1)
    for ids, start, end in ((text, 0, 6), (rejected, 6, 10), (text, 6, anchor)):
        rows = ids[:, start + 1 : end + 1], torch.arange(start, end).expand(2, -1)
        last = torch.full((2,), end - start - 1)
        loop.observe(*rows, [x[:, start:end] for x in features], last)
    forced = iter(text[:, anchor + 1 : anchor + 9].T)
    with torch.no_grad():
        _, logits = loop.propose(head.depths, lambda logits: (next(forced), logits))
        verified, drafted, _ = head(text, features, ANCHORS)
        rows = drafted[:, 1]
        if verified is not None:
            rows = torch.cat((verified[:, anchor, None], rows), dim=1)
        torch.testing.assert_close(logits, head.logits(rows), rtol=1e-4, atol=1e-4)
