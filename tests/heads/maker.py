"""Folders of heads: random tensors, and logits of a reference and of the formula."""

import json
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from characters import tokenizer
from safetensors.torch import save_file
from torch import Tensor

import formula
import peers
from cases import ROUNDS, TARGETS, Case
from formula import Head
from peers import PEERS, Peer
from readings import VARIANTS, Wrong, wrong_readings
from recipe_peer import TapDraftPeer
from target import Target

HERE = Path(__file__).parent

# What reference and formula may differ at most, what a wrong reading must change at least,
# and by how much the best token is ahead of the next: otherwise rounding might choose.
NEAR, VISIBLE, AHEAD = 1e-5, 1e-2, 1e-3
# The relative error of a target's states in f32, and what it may change at most: half of what
# the tests allow.
NOISE, STEADY = 1e-6, 5e-5
# Tensors with a row, or all of them, for a token.
TABLES = ("markov_head.markov_w1.weight", "mask_embedding", "mask_hidden")
Rows = dict[formula.Path, np.ndarray]


def seeded(name: str) -> torch.Generator:
    """Return random numbers that depend on a name alone."""
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def weight(name: str, noise: Tensor, tied: bool) -> Tensor:
    """Turn standard normal numbers into a weight of that name."""
    if "norm" in name and noise.ndim == 1:
        return 1.0 + 0.4 * noise
    if name.endswith("sink_bias"):
        return 1.5 * noise
    if name.endswith("bias"):
        return 0.4 * noise
    if "embed_tokens" in name and not tied or name in TABLES:
        return noise
    sharp = ("q_proj", "k_proj", "lm_head", "shared_head", "embed_tokens")
    gain = 0.6 if name == "fc.weight" else 1.7 if any(part in name for part in sharp) else 1.2
    return gain / math.sqrt(noise.shape[1]) * noise


def random_tensors(
    name: str, shapes: peers.Shapes, bf16: bool, tied: bool = False
) -> dict[str, Tensor]:
    """Return random tensors that depend on a name alone."""
    generator = seeded(f"{name} weights")
    dtype = torch.bfloat16 if bf16 else torch.float32
    return {
        key: weight(key, torch.randn(shape, generator=generator), tied).to(dtype)
        for key, shape in sorted(shapes.items())
        if key not in ("d2t", "t2d")
    }


def vocabulary(case: Case, target: int) -> dict[str, Tensor]:
    """Return the two maps between the target's vocabulary and a smaller one of the head."""
    draft = case.config.get("draft_vocab_size", target)
    if draft == target:
        return {}
    chosen = torch.randperm(target, generator=seeded(f"{case.name} vocabulary"))[:draft]
    ids = chosen.sort().values
    used = torch.zeros(target, dtype=torch.bool)
    used[ids] = True
    return {"d2t": ids - torch.arange(draft), "t2d": used}


def write_json(file: Path, content: dict[str, Any]) -> None:
    """Write JSON with one key per line."""
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_target(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a target's folder."""
    folder.mkdir(exist_ok=True)
    write_json(folder / "config.json", config)
    write_json(folder / "tokenizer.json", tokenizer(config["vocab_size"]))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def make_target(name: str) -> None:
    """Write one of the two targets that heads share."""
    config = TARGETS[name]
    kind = transformers.AutoConfig.for_model(config["model_type"])
    model = transformers.AutoModelForCausalLM.from_config(type(kind).from_dict(config))
    shapes = peers.shapes(model)
    if config["tie_word_embeddings"]:
        del shapes["lm_head.weight"]
    tensors = random_tensors(name, shapes, True, config["tie_word_embeddings"])
    write_target(HERE / name, config, tensors)


def write_head(case: Case, peer: type[Peer]) -> Path:
    """Write the folder of a case but its logits."""
    folder = HERE / case.name
    folder.mkdir(exist_ok=True)
    config, shapes = peer.template(case, TARGETS.get(case.target) or dict(case.config))
    tied = config.get("tie_word_embeddings", False)
    if tied:
        shapes.pop("lm_head.weight", None)
    tensors = random_tensors(case.seed or case.name, shapes, case.bf16, tied)
    if case.target is None or "pard_token" in config:
        write_target(folder, config, {**tensors, **copies(case, config, tensors)})
        return folder
    if "medusa_num_layers" in config:
        tensors = repeated(tensors, config["medusa_num_layers"])
    size = TARGETS[case.target]["vocab_size"]
    write_json(folder / "config.json", config)
    save_file({**tensors, **vocabulary(case, size)}, folder / case.file, metadata={"format": "pt"})
    return folder


def copies(case: Case, config: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the copies of embedding and head that published layers come with, if asked for."""
    if not case.copies:
        return {}
    prefix = f"model.layers.{config['num_hidden_layers']}."
    return {
        f"{prefix}embed_tokens.weight": tensors["model.embed_tokens.weight"].clone(),
        f"{prefix}shared_head.head.weight": tensors["lm_head.weight"].clone(),
    }


def repeated(tensors: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Give all residual blocks of a Medusa head the weights of the first."""
    first = lambda key: ".".join([key.split(".")[0], "0", *key.split(".")[2:]])
    return {
        key: tensors[first(key)].clone() if ".linear." in key else x for key, x in tensors.items()
    }


def third(
    case: Case,
    config: dict[str, Any],
    tensors: formula.Tensors,
    target: Target,
    dtype: type = np.float64,
) -> Head:
    """Return the formula for a configuration and tensors."""
    embed, head = (x.numpy().astype(dtype) for x in (target.embed, target.head))
    args = (tensors, config, embed, head)
    if case.layout in formula.MTP_NAMES:
        return formula.Mtp(case.layout, *args)
    kinds = {
        "eagle3": formula.Eagle3,
        "eagle1": formula.Eagle1,
        "medusa": formula.Medusa,
        "tap_draft": formula.TapDraft,
    }
    return kinds[case.layout](*args)


def arrays(folder: Path) -> formula.Tensors:
    """Return the tensors of a folder in double precision, but for the ids."""
    tensors = peers.tensors_of(folder)
    return {k: (x if k == "d2t" else x.double()).numpy() for k, x in tensors.items()}


def best(head: Head, logits: np.ndarray, path: formula.Path = (), rank: int = 0) -> int:
    """Return the best token that a path does not have, or the next best one, as the target's id."""
    order = [i for i in np.argsort(-logits) if head.ids[i] not in path]
    assert logits[order[rank]] - logits[order[rank + 1]] > AHEAD, "a tie: change the seed"
    return int(head.ids[order[rank]])


def proposed(case: Case, head: Head, context: list[int], states: np.ndarray) -> list[formula.Path]:
    """Return the paths to record: a chain of likely tokens, and a sibling of its first one."""
    depth = (case.heads or 4) - 1
    after = lambda path: head.rows(context, states, peers.prefixes(path))[path]
    chain: formula.Path = ()
    for _ in range(depth):
        chain = (*chain, best(head, after(chain), chain))
    other: formula.Path = (best(head, after(()), rank=1),)
    if depth > 1:
        other = (*other, best(head, after(other), other))
    return [*peers.prefixes(chain), *peers.prefixes(other)[1:]]


def prompt(case: Case, size: int) -> list[int]:
    """Return nine tokens, the first `<s>`."""
    return [1, *torch.randint(3, size, (8,), generator=seeded(f"{case.seed or case.name} prompt")).tolist()]


def following(head: Head, context: list[int], rows: Rows, seed: str, size: int) -> list[int]:
    """Accept two drafted tokens, and add one that was not drafted after them."""
    deepest = max(rows, key=len)
    deepest = (*deepest, best(head, rows[deepest], deepest))
    accepted = deepest[:2]
    after = [path for path in [*rows, deepest] if path[:2] == accepted]
    drafted = {path[2] for path in after if len(path) > 2}
    free = [token for token in range(3, size) if token not in drafted]
    choice = torch.randint(len(free), (1,), generator=seeded(f"{seed} correction"))
    return [*context, *accepted, free[int(choice)]]


def written(value: Any) -> str:
    """Return JSON with nine digits and a line for each row."""
    if isinstance(value, dict):
        inside = ",\n".join(f'"{key}": {written(x)}' for key, x in value.items())
        if {"drafted", "logits"} <= set(value):
            inside = inside.replace(",\n", ", ")
        return "{" + inside + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(written(x) for x in value) + "\n]"
    if isinstance(value, list):
        return "[" + ", ".join(written(x) for x in value) + "]"
    return f"{value:.9g}" if isinstance(value, float) else json.dumps(value)


def apart(a: Rows, b: Rows) -> float:
    """Return the largest difference of two sets of logits, in the rows that both have."""
    return max(float(np.abs(a[path] - b[path]).max()) for path in a if path in b)


class Maker:
    """Makes the two rounds of a case."""

    kinds = {**PEERS, "recipe": TapDraftPeer}
    variants_of: dict[str, Any] = VARIANTS

    def __init__(self, case: Case):
        kind = self.kinds[case.peer]
        self.case, self.folder = case, write_head(case, kind)
        self.target = Target(HERE / case.target if case.target else self.folder)
        self.size = self.target.model.config.vocab_size
        self.peer = kind(self.folder, case, self.target)
        config = json.loads((self.folder / "config.json").read_text())
        tensors = arrays(self.folder)
        self.head = self.formula_of(config, tensors)
        self.wrong = self.wrong_readings(config, tensors)
        self.others = {w.label: self.other(w, config, tensors) for w in self.wrong}
        self.effects = dict.fromkeys(self.others, 0.0)
        self.variants: dict[str, list[dict[str, Any]]] = {name: [] for name in case.variants}
        single = {k: x if k == "d2t" else x.astype(np.float32) for k, x in tensors.items()}
        self.single = self.formula_of(config, single, np.float32)
        self.largest = self.rounding = self.same = 0.0

    def formula_of(
        self, config: dict[str, Any], tensors: formula.Tensors, dtype: type = np.float64
    ) -> Head:
        """Return the formula for a configuration and tensors."""
        return third(self.case, config, tensors, self.target, dtype)

    def wrong_readings(self, config: dict[str, Any], tensors: formula.Tensors) -> list[Wrong]:
        """Return what the logits must tell from the right reading."""
        return wrong_readings(self.case, config, tensors, self.head, self.target)

    def paths(self, context: list[int], states: np.ndarray) -> list[formula.Path]:
        """Return the paths to record."""
        return proposed(self.case, self.head, context, states)

    def as_round(self, context: list[int], rows: Rows) -> dict[str, Any]:
        """Return a round as it is written."""
        lines = [{"drafted": list(path), "logits": rows[path].tolist()} for path in rows]
        return {"context": context, "rows": lines}

    def head_of_file(self) -> dict[str, Any]:
        """Return what expected.json says before its rounds."""
        content: dict[str, Any] = {
            "made_by": f"{self.peer.made_by}; {self.peer.how}",
            "target": self.case.target or ".",
            "taps": list(self.case.taps) if self.case.taps else "normed",
        }
        if len(self.head.ids) < self.size:
            content["ids"] = self.head.ids.tolist()
        return content

    def other(self, wrong: Wrong, config: dict[str, Any], tensors: formula.Tensors) -> Head:
        """Return the formula with other keys or fewer tensors."""
        left = {k: x for k, x in tensors.items() if not k.endswith(wrong.without or "none")}
        return self.formula_of(wrong.config or config, left)

    def states(self, context: list[int], taps: Sequence[int] | None) -> Tensor:
        """Return the target's states of all tokens but the last."""
        return self.target.states(context[:-1], None if taps is None else list(taps))

    def round(self, context: list[int], stale: np.ndarray | None) -> Rows:
        """Return the reference's rows, and compare them with those of the formula."""
        states = self.states(context, self.case.taps)
        plain = states.numpy()
        found = self.peer.rows(context, states, self.paths(context, plain))
        rows = {path: logits.numpy() for path, logits in found.items()}
        paths = list(rows)
        own = self.head.rows(context, plain, paths)
        self.largest = max(self.largest, apart(rows, own))
        noise = np.random.default_rng(len(context)).standard_normal(plain.shape)
        noisy = (plain * (1 + NOISE * noise)).astype(np.float32)
        single = self.single.rows(context, noisy, paths)
        self.rounding = max(self.rounding, apart(rows, single))
        for name, rounds in self.variants.items():
            other = self.head.rows(context, plain, paths, self.variants_of[name])
            rounds.append(self.as_round(context, other))
            if name == "positions_plus_one":
                self.same = max(self.same, apart(own, other))
        for wrong in self.wrong:
            if wrong.stale and stale is None:
                continue
            inputs = plain if wrong.taps is None else self.states(context, wrong.taps).numpy()
            kept = stale if wrong.stale else None
            head = self.others[wrong.label]
            other = head.rows(context, inputs, paths, wrong.reading, kept)
            self.effects[wrong.label] = max(self.effects[wrong.label], apart(own, other))
        return rows

    def rounds(self) -> list[dict[str, Any]]:
        """Return all rounds, as they are written."""
        context, rounds, stale = prompt(self.case, self.size), [], None
        for _ in range(ROUNDS):
            rows = self.round(context, stale)
            rounds.append(self.as_round(context, rows))
            longer = following(self.head, context, rows, self.case.name, self.size)
            if any(wrong.stale for wrong in self.wrong):
                path = tuple(longer[len(context) : -1])
                states = self.states(context, self.case.taps).numpy()
                stale = self.head.own_states(context, states, path)
            context = longer
        return rounds

    def check(self) -> None:
        """Fail if the reference and the formula differ, or if a wrong reading is hidden."""
        name = self.case.name
        apart = f"{name}: the reference and the formula are {self.largest:.1e} apart"
        assert max(self.largest, self.same) < NEAR, apart
        assert self.rounding < STEADY, f"{name}: rounding changes logits by {self.rounding:.1e}"
        hidden = [f"{label} ({x:.1e})" for label, x in self.effects.items() if not x > VISIBLE]
        assert not hidden, f"{name}: hardly visible: {', '.join(hidden)}"
