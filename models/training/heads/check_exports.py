"""Check that exported heads load where others read them, and give the logits of the recipe.

    python -m heads.check_exports

Random heads are exported to a temporary folder. speculators reads EAGLE-3 in its layout, SpecForge
reads it in the EAGLE repository's, and transformers reads the tap draft as a Llama. No tensor may
be missing or left. ``tests/heads/requirements.txt`` has the packages; the exit code is 77 if one is
missing.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from evaluate import HERE, load_folder
from heads.eagle3 import Eagle3
from heads.export import LAYOUTS, export
from heads.parts import hidden_states
from heads.tap_draft import TapDraft
from model import RMSNorm

SEED = 37
TEXT = "fn largest(values: &[u32]) -> u32 {\n    values.iter().copied().max().unwrap_or(0)\n}\n"
# Of the largest logit. A logit has the rounding of some hundred f32 sums, in another order.
TOLERANCE = 1e-5


def compare(what: str, theirs: Tensor, ours: Tensor) -> None:
    """Fail if logits differ."""
    apart, largest = (theirs - ours).abs().max().item(), ours.abs().max().item()
    print(f"{what}: {ours[..., 0].numel()} rows, {apart:.0e} apart, largest logit {largest:.3g}")
    assert apart < TOLERANCE * largest, what


def read(module: nn.Module, folder: Path, own: set[str]) -> nn.Module:
    """Read exported weights; a module has those of the names ``own`` from elsewhere."""
    found = module.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    assert set(found.missing_keys) == own and not found.unexpected_keys, found
    return module.eval()


def config_of(folder: Path) -> dict:
    """Return an exported configuration."""
    return json.loads((folder / "config.json").read_text())


def randomize(head: nn.Module) -> None:
    """Give a head random weights of bf16 that all show in the logits."""
    for name, p in head.named_parameters():
        if p.ndim == 1:
            p.mul_(1 + 0.4 * torch.randn_like(p))
        elif name.startswith(("fc", "layers")):
            p.normal_(std=p.shape[1] ** -0.5)
        p.copy_(p.bfloat16())


def own_eagle3(head: Eagle3, ids: Tensor, features: list[Tensor]) -> Tensor:
    """Return the recipe's logits (anchors, depths, vocabulary) at every anchor of a text."""
    anchors = torch.arange(1, ids.shape[1] - head.depths + 1)
    verified, drafted, _ = head(ids, features, anchors)
    return head.logits(torch.cat((verified[:, anchors, None], drafted), dim=2))[0]


def of_speculators(folder: Path, head: Eagle3, ids: Tensor, features: list[Tensor]) -> Tensor:
    """Return logits (rows, depths, vocabulary) of speculators' training pass.

    speculators 0.9 ignores ``target_hidden_size``, so a narrow head's ``fc`` is made here.
    """
    from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig

    config = Eagle3SpeculatorConfig.from_dict(config_of(folder))
    config.transformer_layer_config._attn_implementation = "eager"
    model, width = Eagle3DraftModel(config), features[0].shape[-1]
    if width != model.hidden_size:
        model.fc = nn.Linear(head.fc.in_features, model.hidden_size, bias=False)
        model.fc_norm = nn.ModuleList(RMSNorm(width, head.config.rms_norm_eps) for _ in features)
    read(model, folder, {"verifier_lm_head.weight", "verifier_norm.weight"})
    seen: list[Tensor] = []
    model.lm_head.register_forward_hook(lambda module, args, out: seen.append(out[0]))
    states = torch.cat(features, dim=-1)[:, :-1]
    document = torch.zeros(states.shape[:2], dtype=torch.long)
    model(states, ids[:, 1:], document, ttt_steps=head.depths)
    return torch.stack(seen, dim=1)


def of_specforge(folder: Path, head: Eagle3, ids: Tensor, features: list[Tensor]) -> Tensor:
    """Return logits (rows, depths, vocabulary) of SpecForge's training loop."""
    from specforge.modeling.draft.llama3_eagle import LlamaForCausalLMEagle3
    from transformers import LlamaConfig

    model = LlamaForCausalLMEagle3(LlamaConfig.from_dict(config_of(folder)))
    read(model, folder, {"t2d", "d2t"})  # of a reduced vocabulary
    hidden = model.project_hidden_states(torch.cat(features, dim=-1)[:, :-1])
    count, cache, seen = hidden.shape[1], [[], []], []
    mask = torch.ones(1, count, dtype=torch.bool)
    mask = model.prepare_decoder_attention_mask(mask, hidden, 1, count, 0)
    for step in range(head.depths):
        tokens = F.pad(ids[:, 1 + step :], (0, step))
        hidden = model.backbone(
            input_embeds=model.embed_input_ids(tokens),
            hidden_states=hidden,
            cache_hidden=cache,
            attention_mask=mask,
            position_ids=torch.arange(count)[None],
        )
        seen.append(model.compute_logits(hidden)[0])
    return torch.stack(seen, dim=1)


def of_llama(folder: Path, ids: Tensor, extra: Tensor | float = 0.0) -> Tensor:
    """Return logits of transformers' Llama, with ``extra`` added to the embedding."""
    from transformers import LlamaConfig, LlamaForCausalLM, logging

    logging.set_verbosity_error()  # it would list the tensors that are no Llama's
    logging.disable_progress_bar()
    config = LlamaConfig.from_dict({**config_of(folder), "model_type": "llama"})
    model, found = LlamaForCausalLM.from_pretrained(
        folder, config=config, dtype=torch.float32, output_loading_info=True
    )
    left = [name for name in found["unexpected_keys"] if not name.startswith(("fc.", "fc_norm."))]
    assert not left and not found["missing_keys"], found
    return model(inputs_embeds=model.model.embed_tokens(ids) + extra).logits


def check_eagle3(folder: Path, ids: Tensor, features: list[Tensor]) -> None:
    """Check the narrow head, and one as wide as the target, in both layouts."""
    readers = dict(zip(LAYOUTS, (of_specforge, of_speculators), strict=True))
    for lent in ("draft", "target"):
        head = Eagle3(load_folder(HERE.parent / lent), features[0].shape[-1]).eval()
        head.begin(features)
        randomize(head)
        ours = own_eagle3(head, ids, features)
        for layout, reader in readers.items():
            export(head, HERE.parent, folder / layout, layout)
            theirs = reader(folder / layout, head, ids, features)[: len(ours)]
            compare(f"EAGLE-3 of width {head.config.hidden_size}, {layout}", theirs, ours)


def check_tap(folder: Path, ids: Tensor, features: list[Tensor]) -> None:
    """Check the tap draft without features, which is the draft model, and with features."""
    draft = HERE.parent / "draft"
    head = TapDraft(load_folder(draft), features[0].shape[-1]).eval()
    export(head, HERE.parent, folder)
    theirs = of_llama(folder, ids)
    assert torch.equal(theirs, of_llama(draft, ids)), "with fc = 0 the tap draft is the draft model"
    compare("tap draft with fc = 0", theirs, load_folder(draft)(ids))
    head.begin(features)
    randomize(head)
    export(head, HERE.parent, folder)
    extra = F.pad(head.fuse([x[:, :-1] for x in features]), (0, 0, 1, 0))
    verified, *_ = head(ids, features, torch.tensor([1]))
    compare("tap draft", of_llama(folder, ids, extra), head.logits(verified))


@torch.no_grad()
def main() -> None:
    """Check all exports; exit with 77 if a package is missing."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    target = load_folder(HERE.parent / "target")
    tokenizer = Tokenizer.from_file(str(HERE.parent / "target/tokenizer.json"))
    ids = torch.tensor([tokenizer.encode(TEXT).ids])
    features = hidden_states(target.model, ids)
    with TemporaryDirectory() as folder:
        try:
            check_eagle3(Path(folder), ids, features)
            check_tap(Path(folder) / "tap", ids, features)
        except ModuleNotFoundError as error:
            print(f"skipped: {error}; tests/heads/requirements.txt says what to install")
            sys.exit(77)


if __name__ == "__main__":
    main()
