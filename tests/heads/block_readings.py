"""Wrong readings of a drafter of blocks: what its logits must tell from the right one."""

from dataclasses import replace
from typing import Any

from block_cases import BlockCase
from block_formula import RIGHT, BlockHead, BlockReading
from formula import Tensors
from readings import Wrong, changed, taps
from target import Target

# Those whose logits are stored as well, by the key under which they are.
BLOCK_VARIANTS = {
    "width_4": BlockReading(width=4),
    "causal": BlockReading(causal=True),
    "bidirectional": BlockReading(causal=False),
    "anchor_first": BlockReading(anchor_first=True),
    "fill_in": BlockReading(anchor_first=False),
    "window_by_row": BlockReading(window="row"),
    "window_past": BlockReading(window="past"),
    "window_by_anchor": BlockReading(window="anchor"),
    "window_inclusive": BlockReading(window="inclusive"),
    "rnn_from_first_mask": BlockReading(rnn_from=1),
}


def block_readings(
    case: BlockCase, config: dict[str, Any], tensors: Tensors, head: Any, target: Target
) -> list[Wrong]:
    """Return all wrong readings of a case."""
    reading = lambda label, **more: Wrong(label, replace(RIGHT, **more))
    found = [
        reading("zeros for the masks' embeddings", zero_mask=True),
        reading("all masks at one position", spread=False),
    ]
    if case.taps:
        found += [reading("states of the token before", late=True), *taps(case, target)]
        found.append(Wrong("rows of accepted tokens stay those of the block", stale=True))
    if isinstance(head, BlockHead):
        found += blocks(head, tensors, reading) + markov(head, tensors, reading)
    else:
        found.append(reading("drafted tokens in place of masks", drafted=True))
        found.append(reading("masks one position later", shift=1))
    if case.layout == "peagle":
        found += peagle(config, reading)
    if case.layout == "pard":
        found.append(reading("the mask's row drafts its own position", anchor_first=False))
    found += switches(config, tensors, head, target)
    own = lambda wrong: isinstance(wrong.reading, BlockReading)
    return [wrong if own(wrong) else replace(wrong, reading=RIGHT) for wrong in found]


def blocks(head: BlockHead, tensors: Tensors, reading: Any) -> list[Wrong]:
    """Return readings of a block's width, of what its rows see and of its context."""
    own = head.settings
    found = [
        reading("the block one position later", shift=1),
        reading("the block one position earlier", shift=-1),
        reading("the context through input_layernorm", context_normed=True),
        Wrong("the context without hidden_norm", without=norms(tensors)),
    ]
    if not all(layer.causal for layer in own.layers):
        found.append(reading("a block of two rows less", width=own.width - 2))
        found.append(reading("a block of one row more", width=own.width + 1))
        found.append(reading("all layers causal", causal=True))
    if any(layer.causal for layer in own.layers):
        found.append(reading("no layer causal", causal=False))
    if any(layer.window for layer in own.layers):
        found.append(reading("no windows", window="none"))
        others = {
            "row": "windows of as many tokens, the row included",
            "inclusive": "windows of one token more, on both sides",
            "anchor": "windows that begin at the anchor",
        }
        found += [reading(label, window=x) for x, label in others.items() if x != own.window]
    first = "the anchor's row is not read" if own.anchor_first else "the anchor's row drafts first"
    found.append(reading(first, anchor_first=not own.anchor_first))
    if own.value_scale != 1:
        found.append(reading("values of the context not scaled", plain_values="context"))
        found.append(reading("values of the block not scaled", plain_values="block"))
    if own.embedding_scale != 1:
        found.append(reading("embeddings not scaled", table_scale=False))
    return found


def norms(tensors: Tensors) -> tuple[str, ...]:
    """Return the name of the norm after fc."""
    names = ("hidden_norm.weight", "encoder.output_norm_enc.weight")
    return tuple(name for name in names if name in tensors)


def markov(head: BlockHead, tensors: Tensors, reading: Any) -> list[Wrong]:
    """Return readings of a Markov head."""
    if "markov_head.markov_w2.weight" not in tensors:
        return []
    part = lambda name: (f"markov_head.{name}",)
    found = [
        Wrong("no bias of the token before", without=part("markov_w2.weight")),
        reading("biased by the best token, not the drafted one", previous="argmax"),
        reading("biased by the anchor in all rows", previous="anchor"),
    ]
    if "d2t" in tensors:
        found.append(reading("biased by the row of the drafted token", previous="row"))
    for name in ("gate_proj", "joint_proj"):
        if f"markov_head.{name}.bias" in tensors:
            found.append(Wrong(f"{name} without its bias", without=part(f"{name}.bias")))
    if "markov_head.gate_proj.weight" in tensors:
        found.append(Wrong("no gate", without=part("gate_proj.weight")))
    if "markov_head.joint_proj.weight" in tensors:
        found.append(reading("the recurrent state not carried on", rnn_kept=False))
        if not head.settings.anchor_first:
            found.append(reading("the state starts at the first mask", rnn_from=1))
    return found


def peagle(config: dict[str, Any], reading: Any) -> list[Wrong]:
    """Return readings of the masks' state and of the switches."""
    before = not config["norm_before_residual"]
    label = "with" if before else "without"
    other = changed(config, norm_before_residual=before)
    return [
        reading("the masks' state without the norms before fc", plain_mask=True),
        Wrong(f"residual {label} the norm", config=other),
    ]


def switches(config: dict[str, Any], tensors: Tensors, head: Any, target: Target) -> list[Wrong]:
    """Return readings of other keys or of fewer tensors."""
    found = []
    own = config.get("dflash_config", {})
    for key, label in (
        ("output_multiplier", "logits not multiplied"),
        ("final_logit_softcapping", "logits not capped"),
        ("attention_value_scale", "no values scaled"),
    ):
        if key in own:
            rest = {k: x for k, x in own.items() if k != key}
            found.append(Wrong(label, config={**config, "dflash_config": rest}))
    theta = target.model.config.rope_parameters["rope_theta"]
    if theta != head.shape.theta:
        found.append(Wrong("the target's theta", config=changed(config, rope_theta=theta)))
    parts = {
        "attention_sink_bias": "no sinks",
        "mask_embedding": "the target's embedding of the mask",
        "self_attn.q_proj.bias": "biases of q, k and v left out",
        "self_attn.o_proj.bias": "the bias of o left out",
        "self_attn.q_norm.weight": "norms of q and k left out",
        "embed_tokens.weight": "the target's embedding",
        "lm_head.weight": "the target's matrix",
    }
    for part, label in parts.items():
        names = [name for name in tensors if name.endswith(part)]
        if part in ("embed_tokens.weight", "lm_head.weight"):
            shared = target.embed if part == "embed_tokens.weight" else target.head
            names = [name for name in names if tensors[name].shape == shared.shape]
        left = [name.replace(".q_", x) for name in names for x in (".q_", ".k_", ".v_")]
        if names:
            found.append(Wrong(label, without=tuple(left)))
    return found
