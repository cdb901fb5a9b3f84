"""Targets: random tiny decoders in Hugging Face layout, and their hidden states."""

import json
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, Qwen2Config

from reference import KeepWide, widen


def open_model(folder: Path) -> PreTrainedModel:
    """Load a folder's model; tensors of heads in its file are left."""
    config = json.loads((folder / "config.json").read_text())
    if config["model_type"] == "mimo":  # a Qwen2 but for its layers to predict with
        settings = Qwen2Config.from_dict({**config, "model_type": "qwen2"})
    else:
        settings = AutoConfig.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(
        folder, config=settings, dtype=torch.float32, attn_implementation="eager"
    )
    return model.eval()


class Target:
    """A target in double precision."""

    def __init__(self, folder: Path):
        self.model = widen(open_model(folder))
        self.layers = self.model.config.num_hidden_layers
        self.embed = self.model.model.embed_tokens.weight.data
        self.head = self.model.lm_head.weight.data

    @torch.no_grad()
    def states(self, tokens: list[int], taps: list[int] | None) -> Tensor:
        """Return the states after these numbers of layers, side by side, `[tokens, width]`.

        0 is the embedding; the number of layers is the state before the last norm. Without
        taps it is the state after that norm.
        """
        seen: list[Tensor] = []
        decoder = self.model.model
        first = lambda out: out[0] if isinstance(out, tuple) else out
        hooks = [
            decoder.layers[0].register_forward_pre_hook(lambda m, args: seen.append(args[0])),
            *(
                x.register_forward_hook(lambda m, i, o: seen.append(first(o)))
                for x in decoder.layers
            ),
        ]
        with KeepWide():
            normed = decoder(input_ids=torch.tensor([tokens]), use_cache=False).last_hidden_state
        for hook in hooks:
            hook.remove()
        assert len(seen) == self.layers + 1
        return normed[0] if taps is None else torch.cat([seen[k][0] for k in taps], -1)
