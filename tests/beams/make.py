"""Write the texts that transformers' beam search finds on tiny random checkpoints.

    pip install -r tests/beams/requirements.txt
    python tests/beams/make.py single
    python tests/beams/make.py groups

The checkpoints are those of tests/families. `single` writes single.json, `groups`
groups.json; each is a list of cases with the options, the prompt and, best first, the
returned texts with their scores. `single` computes logits in f64, so that rounding can hardly
decide between two texts; transformers 4 has no searches with groups in f64.
"""

import itertools
import json
import random
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

HERE = Path(__file__).parent
FAMILIES = HERE.parent / "families"
FOLDERS = ("llama", "qwen2_window", "qwen3", "gemma2", "phi3", "olmo2")
# End tokens, which these models choose now and then. A search with groups writes the first of
# several end tokens for each of them.
ENDS = {"single": ([2], [9], [5, 17], [4, 12, 23], []), "groups": ([10], [14], [31], [])}
# New tokens; the window of each checkpoint that has one is shorter than prompt and text.
LENGTHS = (1, 6, 14, 20)
SINGLE = {
    "num_beams": (2, 3, 4, 5, 8),
    "length_penalty": (1.0, -1.0, 0.0, 0.6, 2.0),
    "early_stopping": (False, True, "never"),
}
GROUPS = {
    "num_beams": (4, 6, 8),
    "num_beam_groups": (2, 4, 3),
    "diversity_penalty": (0.3, 1.0, 2.5),
    "length_penalty": (1.0, 0.0, 1.5),
    "early_stopping": (False, True, "never"),
}
CASES = {"single": (SINGLE, 84, 17), "groups": (GROUPS, 36, 18)}


def config(folder: str) -> PretrainedConfig:
    """Return the configuration in the spelling that both versions of transformers read."""
    settings = json.loads((FAMILIES / folder / "config.older.json").read_text())
    return AutoConfig.for_model(settings.pop("model_type"), **settings)


def load(folder: str) -> PreTrainedModel:
    """Return a checkpoint in f32, in which its rotary frequencies are computed."""
    model = AutoModelForCausalLM.from_pretrained(
        FAMILIES / folder,
        config=config(folder),
        torch_dtype=torch.float32,
        attn_implementation="eager",
    ).eval()
    model.generation_config.eos_token_id = None
    return model


def options(grid: dict[str, tuple], count: int, draw: random.Random) -> list[dict[str, Any]]:
    """Return that many different settings of a grid."""
    every = [dict(zip(grid, values)) for values in itertools.product(*grid.values())]
    fit = [o for o in every if o["num_beams"] % o.get("num_beam_groups", 1) == 0]
    return draw.sample(fit, count) if count <= len(fit) else draw.choices(fit, k=count)


def case(name: str, number: int, option: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """Return the question of a case."""
    folder = FOLDERS[number % len(FOLDERS)]
    tokens = json.loads((FAMILIES / folder / "config.json").read_text())["vocab_size"]
    length = draw.randint(1, 9)
    return {
        "folder": folder,
        "prompt": [1, *(draw.randrange(3, tokens - 4) for _ in range(length))],
        "eos": draw.choice(ENDS[name]),
        "max_tokens": draw.choice(LENGTHS),
        **option,
        "num_return_sequences": draw.randint(1, option["num_beams"]),
    }


@torch.no_grad()
def texts(model: PreTrainedModel, question: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what transformers finds."""
    prompt = torch.tensor([question["prompt"]])
    named = {"folder", "prompt", "eos", "max_tokens"}
    settings = {key: value for key, value in question.items() if key not in named}
    found = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        max_new_tokens=question["max_tokens"],
        eos_token_id=question["eos"] or None,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_scores=True,
        **settings,
    )
    new = found.sequences[:, prompt.shape[1] :].tolist()
    scores = found.sequences_scores.tolist()
    return [
        {"tokens": cut(text, question["eos"]), "score": score}
        for text, score in zip(new, scores, strict=True)
    ]


def cut(text: list[int], ends: list[int]) -> list[int]:
    """Return a text up to its end token; what follows only fills it up."""
    end = next((i for i, token in enumerate(text) if token in ends), len(text))
    return text[: end + 1]


def main() -> None:
    """Write one of the two files."""
    name = sys.argv[1]
    grid, count, seed = CASES[name]
    draw = random.Random(seed)
    dtype = torch.float64 if name == "single" else torch.float32
    models: dict[str, PreTrainedModel] = {}
    lines = []
    for number, option in enumerate(options(grid, count, draw)):
        question = case(name, number, option, draw)
        folder = question["folder"]
        if folder not in models:
            models[folder] = load(folder).to(dtype)
        question["texts"] = texts(models[folder], question)
        lines.append(json.dumps(question))
    (HERE / f"{name}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
    cases = [json.loads(line) for line in lines]
    ended = sum(len(t["tokens"]) < c["max_tokens"] for c in cases for t in c["texts"])
    print(f"{len(lines)} cases, {ended} texts that ended before max_tokens")


if __name__ == "__main__":
    main()
