"""Losses, FLOPs and grids, against closed forms."""

import pytest
import torch

from conftest import DRAFT, TARGET
from evaluate import load_folder
from protocol.drafters import new_drafter
from protocol.flops import per_micro_batch
from protocol.grid import Grid, GridError, Group, load
from protocol.objective import Objective, Teacher, losses

P = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
LOGITS = torch.tensor([0.3, 1.0, -0.4], dtype=torch.float64)
EVEN = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000


def loss_and_gradient(kind, uniforms):
    """The mean loss over uniforms, and its gradient by the logits."""
    logits = LOGITS.clone().requires_grad_()
    log_q = logits.log_softmax(-1).expand(len(uniforms), -1)
    mean = losses(kind, P.log().expand(len(uniforms), -1), log_q, uniforms).mean()
    mean.backward()
    return mean.detach(), logits.grad


def test_losses_have_their_closed_forms():
    """Catches: KL the other way round, variation without its half, labels not drawn from p."""
    q = LOGITS.softmax(-1)
    kl, kl_gradient = loss_and_gradient("kl", EVEN[:1])
    torch.testing.assert_close(kl, (P * (P / q).log()).sum())
    torch.testing.assert_close(kl_gradient, q - P)
    tv, tv_gradient = loss_and_gradient("tv", EVEN[:1])
    torch.testing.assert_close(tv, 1 - torch.minimum(P, q).sum())
    more = (q > P).double()
    torch.testing.assert_close(tv_gradient, q * (more - (more * q).sum()))
    ce, ce_gradient = loss_and_gradient("ce", EVEN)
    torch.testing.assert_close(ce, kl - (P * P.log()).sum())
    torch.testing.assert_close(ce_gradient, q - P)
    one, one_gradient = loss_and_gradient("ce", EVEN[600:601])  # draws the second token
    torch.testing.assert_close(one, -q[1].log())
    torch.testing.assert_close(one_gradient, q - torch.tensor([0, 1, 0]))


def products(shape):
    """The multiply-adds of a row in all matrices of the layers."""
    heads = shape.num_attention_heads + shape.num_key_value_heads
    attention = 2 * shape.hidden_size * shape.head_dim * heads
    return shape.num_hidden_layers * (attention + 3 * shape.hidden_size * shape.intermediate_size)


def test_flops_are_those_of_the_formula(pair):
    """Catches: a pass that is not counted, or counted twice."""
    batch, time, anchors = 2, 48, torch.tensor([3, 19, 35])
    ids = torch.zeros(batch, time, dtype=torch.long)
    lesson = ids, anchors, torch.rand(batch, time), torch.rand(batch, 3, 7)
    teacher = Teacher(load_folder(pair / "target"), (2, 4, 6))
    features, *_ = teacher(ids)
    grid = Grid(time, batch, batch, 3, 1, 0.5, (2, 4, 6), 159, (), ())
    group = Group("a", "kl", "off", "lent", 0, (96,))
    head = new_drafter("draft", grid, group, load_folder(pair / "draft"), features)
    found = per_micro_batch(Objective(head, teacher, "kl", False), lesson)

    def attention(shape, queries, keys):
        width = shape.num_attention_heads * shape.head_dim
        return 2 * shape.num_hidden_layers * width * queries * keys

    rows = products(TARGET) * time + attention(TARGET, time, time)
    logits = TARGET.vocab_size * TARGET.hidden_size * time
    assert found["target"] == 2 * batch * (rows + logits)
    drafted, first = 3 * 7, (time - 1) // 2
    rows = products(DRAFT) * (time + drafted) + attention(DRAFT, time, time)
    rows += attention(DRAFT, drafted, time + drafted)
    logits = DRAFT.vocab_size * DRAFT.hidden_size * (first + drafted)
    assert found["drafter"] == 3 * 2 * batch * (rows + logits)


GRID = """
context = 64
windows = 8
micro = 4
anchors = 4
warmup = 2
decay = 0.25
taps = [2, 4, 6]
mask = 159
tuning = []
[[group]]
name = "a"
loss = "kl"
policy = "off"
start = "lent"
seed = 1
rate = 1.0
budgets = [2048]
"""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"kl"', '"mse"', "loss = 'mse'; allowed: ce, kl, tv"),
        ("[2048]", "[2000]", "2000 tokens are no multiple of 512"),
        ("rate = 1.0", "", "without tuning, every group needs a rate"),
        ("micro = 4", "micro = 3", "multiple of micro"),
        ("decay = 0.25", "decay = 1.5", "allowed: more than 0"),
        ('"a"', '"a"\nlayers = 3', "keys must be"),
        ("tuning = []", 'tuning = ["b"]', "names of groups that have a rate"),
        ("warmup = 2", "", "warmup"),
    ],
)
def test_a_grid_that_cannot_run_is_refused(tmp_path, old, new, says):
    """Catches: budgets that are not equal because of rounding, unknown losses."""
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    load(path)
    path.write_text(GRID.replace(old, new))
    with pytest.raises(GridError, match=".*grid.toml: .*") as refused:
        load(path)
    assert says in str(refused.value)
