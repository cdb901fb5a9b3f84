"""Measures trained drafters on held-out text: the overlap Σ min(p, q) by drafted position.

Every drafter reads the same windows of the test split, half of them text and half the target's
own. The tokens of drafts are the text's. A drafter's folder gets overlap.json: for both kinds of
text and each window, the mean overlap by position.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

from evaluate import load_folder
from heads.dspark import DSpark
from heads.tap_draft import DraftModel
from model import Llama, LlamaConfig
from protocol.drafters import DEPTHS, HEADS
from protocol.grid import Grid
from protocol.objective import Lessons, Objective, Teacher

SEED, MICRO_BATCHES = 41, 60  # as many as the target's own text of the test split has


def load_drafter(folder: Path, width: int) -> nn.Module:
    """Load an exported drafter for a target of that width, in f32."""
    config = json.loads((folder / "config.json").read_text())
    record = json.loads((folder / "training.json").read_text())
    shape = {name: config[name] for name in LlamaConfig.__dataclass_fields__}
    draft = Llama(LlamaConfig(**shape))
    weights = {n: w.float() for n, w in load_file(folder / "model.safetensors").items()}
    if record["drafter"] == "draft":
        head = DraftModel(draft)
    else:
        numbers = config.get("target_layer_ids")
        taps = config.get("eagle_aux_hidden_state_layer_ids") or [n + 1 for n in numbers]
        head = HEADS[record["drafter"]](draft, width, tuple(taps))
        weights = {n.replace("midlayer.", "layers.0."): w for n, w in weights.items()}
        if isinstance(head, DSpark):
            head.mask = config["mask_token_id"]
            weights["scale"] = torch.ones_like(head.scale)  # the export has multiplied it in
    head.load_state_dict(weights)
    head.depths = DEPTHS
    return head.eval()


@torch.no_grad()
def overlaps(objective: Objective, lessons: Lessons, count: int) -> dict[str, list]:
    """Return the mean overlap by position of every window, by kind of text."""
    found: dict[str, list] = {"text": [], "own": []}
    for index in range(count):
        lesson = lessons.lesson(index)
        log_p, log_q, _, _, first = objective.rows(lesson, objective.teacher(lesson[0]))
        both = torch.minimum(log_p, log_q).exp().sum(-1)
        by_window = objective.by_depth(both, first).tolist()
        half = len(by_window) // 2
        found["text"] += by_window[:half]
        found["own"] += by_window[half:]
    return {kind: [[round(x, 4) for x in w] for w in windows] for kind, windows in found.items()}


def evaluate(grid: Grid, work: Path, pair: Path) -> None:
    """Write overlap.json into every trained drafter's folder that has none."""
    target = load_folder(pair / "target")
    shape = grid.context, grid.micro, grid.anchors
    lessons = Lessons(work / "shards", "test", SEED, *shape)
    for group in grid.groups:
        for record in sorted((work / group.name).glob("[!.]*/training.json")):
            out = record.with_name("overlap.json")
            if out.exists():
                continue
            head = load_drafter(record.parent, target.config.hidden_size)
            objective = Objective(head, Teacher(target, grid.taps), "tv", on_policy=False)
            found = overlaps(objective, lessons, MICRO_BATCHES)
            staged = out.with_suffix(".tmp")
            staged.write_text(json.dumps(found) + "\n")
            staged.replace(out)
            mean = {kind: round(sum(map(sum, w)) / sum(map(len, w)), 4) for kind, w in found.items()}
            print(record.parent.relative_to(work), mean, flush=True)
