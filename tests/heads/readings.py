"""Wrong readings of a head: what its logits must tell from the right one."""

import copy
from dataclasses import dataclass, field
from typing import Any

from cases import Case
from formula import Eagle3, Head, Mtp, Reading, Tensors
from target import Target

# Those whose logits are stored as well, by the key under which they are.
VARIANTS = {
    "feedback_pre": Reading(feedback="pre"),
    "feedback_post": Reading(feedback="post"),
    "positions_plus_one": Reading(shift=1),
    "drafted_plus_one": Reading(drafted_shift=1),
    "first_row_zero": Reading(first_row_zero=True),
    "extra_first_row": Reading(extra_first_row=True),
}


@dataclass(frozen=True)
class Wrong:
    """One wrong reading: other rows, other taps, other keys or tensors that are left out."""

    label: str
    reading: Reading = field(default_factory=Reading)
    taps: list[int] | None = None
    config: dict[str, Any] | None = None
    without: tuple[str, ...] = ()
    stale: bool = False


def changed(config: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Return a configuration with other values, in the nested part if they are there."""
    config = copy.deepcopy(config)
    for key, value in keys.items():
        layer = config.get("transformer_layer_config", config)
        part = layer if key in layer or key == "rope_theta" else config
        if key == "rope_theta":
            part.pop("rope_parameters", None)
        part[key] = value
    return config


def wrong_readings(
    case: Case, config: dict[str, Any], tensors: Tensors, head: Head, target: Target
) -> list[Wrong]:
    """Return all wrong readings of a case."""
    found = [Wrong("states of the token before", Reading(late=True))]
    if case.layout == "medusa":
        if config["medusa_num_layers"] > 1:
            fewer = {**config, "medusa_num_layers": 1}
            found.append(Wrong("one block only", config=fewer, without=(".1.linear",)))
        return found
    if case.layout == "tap_draft":
        found += taps(case, target) + tap_draft(tensors)
        return found + switches(config, tensors, head, target)
    found.append(Wrong("halves of the concatenation swapped", Reading(swapped=True)))
    found += taps(case, target)
    if case.heads is None:
        found += rows(case, head)
        found.append(Wrong("rows of accepted tokens keep the head's own states", stale=True))
    elif isinstance(head, Mtp):
        found.append(Wrong("the first layer for every position", Reading(first_layer=True)))
    return found + switches(config, tensors, head, target)


def taps(case: Case, target: Target) -> list[Wrong]:
    """Return readings of other states of the target."""
    if not case.taps:
        return []
    found = [Wrong("taps in reverse order", taps=list(reversed(case.taps)))]
    for label, move in (("taps one layer later", 1), ("taps one layer earlier", -1)):
        moved = [k + move for k in case.taps]
        if min(moved) >= 0 and max(moved) <= target.layers:
            found.append(Wrong(label, taps=moved))
    return found


def rows(case: Case, head: Head) -> list[Wrong]:
    """Return readings that feed other rows."""
    found = [
        Wrong("drafted rows one position later", VARIANTS["drafted_plus_one"]),
        Wrong("zeros for the first row's embedding", VARIANTS["first_row_zero"]),
        Wrong("a row of x_0 and zeros first", VARIANTS["extra_first_row"]),
    ]
    if case.layout != "eagle1":
        other = "pre" if head.post else "post"
        label = "before" if head.post else "after"
        found.append(Wrong(f"the state {label} the last norm fed back", Reading(other)))
    return found


def tap_draft(tensors: Tensors) -> list[Wrong]:
    """Return readings of a draft model that adds features."""
    norms = tuple(name for name in tensors if name.startswith("fc_norm."))
    return [
        Wrong("features of the token itself", Reading(early=True)),
        Wrong("the features without norms", without=norms),
        Wrong("no row of x_0", Reading(extra_first_row=True)),
        Wrong("drafted rows one position later", VARIANTS["drafted_plus_one"]),
        Wrong("the last feature in drafted rows", Reading("held")),
        Wrong("the head's own states in drafted rows", Reading("pre")),
        Wrong("rows of accepted tokens stay without features", stale=True),
    ]


def switches(config: dict[str, Any], tensors: Tensors, head: Head, target: Target) -> list[Wrong]:
    """Return readings of other keys or of fewer tensors."""
    found = []
    if isinstance(head, Eagle3):
        before = not config.get("norm_before_residual", False)
        label = "with" if before else "without"
        other = changed(config, norm_before_residual=before)
        found.append(Wrong(f"residual {label} the norm", config=other))
        for key in ("fc_norm", "norm_before_fc"):
            if config.get(key):
                found.append(Wrong(f"{key} left out", config=changed(config, **{key: False})))
    theta = target.model.config.rope_parameters["rope_theta"]
    if theta != head.shape.theta:
        found.append(Wrong("the target's theta", config=changed(config, rope_theta=theta)))
    own = {name: x for name, x in tensors.items() if not in_target(name, head)}
    if "embed_tokens.weight" in own and own["embed_tokens.weight"].shape == target.embed.shape:
        found.append(Wrong("the target's embedding", without=("embed_tokens.weight",)))
    parts = {
        "fc.bias": "the bias of fc left out",
        "self_attn.q_proj.bias": "biases of q, k and v left out",
        "self_attn.q_norm.weight": "norms of q and k left out",
    }
    for part, label in parts.items():
        names = [name for name in own if name.endswith(part)]
        if names:
            left = [name.replace(".q_", x) for name in names for x in (".q_", ".k_", ".v_")]
            found.append(Wrong(label, without=tuple(left)))
    return found


def in_target(name: str, head: Head) -> bool:
    """Return whether a tensor is the target's, in the same folder."""
    return isinstance(head, Mtp) and not name.startswith(head.prefixes)
