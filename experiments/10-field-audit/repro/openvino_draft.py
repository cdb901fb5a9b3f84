"""OpenVINO GenAI 2026.4.1: sampling with a draft model does not draw from the target's distribution.

Target p = (0.6, 0.4) and draft q = (0.8, 0.2) after any context. With the scheduler's defaults a
check fails; with a scheduler that caches no prefixes, tokens are counted. `validate_candidate`
(sampler.cpp) draws y from p and accepts the drafted x if r <= q(x)/p(y), regardless of p(x).

    python experiments/10-field-audit/repro/openvino_draft.py FOLDER    # in the engine's venv
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import start  # noqa: E402, F401

import numpy as np
import openvino_genai as genai
import torch
from openvino import Tensor
from optimum.exporters.openvino import main_export
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

TOKENS, P, Q, TEXTS, LENGTH = (5, 6), (0.6, 0.4), (0.8, 0.2), 300, 32


def model(folder: Path, probs: tuple[float, float]) -> Path:
    """A model that predicts `probs` after any context, as IR: its last hidden state is all ones."""
    sizes = {"hidden_size": 64, "intermediate_size": 64, "vocab_size": 4096}
    made = LlamaForCausalLM(LlamaConfig(**sizes, num_hidden_layers=1, num_attention_heads=1))
    for weight in made.parameters():
        weight.data.zero_()
    made.model.embed_tokens.weight.data.fill_(1.0)
    made.model.norm.weight.data.fill_(1.0)
    made.lm_head.weight.data[:, 0] = -60.0
    made.lm_head.weight.data[list(TOKENS), 0] = torch.tensor(probs).log()
    made.save_pretrained(folder / "hf")
    AutoTokenizer.from_pretrained("models/target").save_pretrained(folder / "hf")
    task = {"task": "text-generation-with-past", "convert_tokenizer": True}
    main_export(str(folder / "hf"), folder / "ir", **task)
    return folder / "ir"


def main() -> None:
    target, draft = (model(Path(sys.argv[1]) / n, probs) for n, probs in (("p", P), ("q", Q)))
    ids = np.full((1, 8), TOKENS[0])
    prompt = genai.TokenizedInputs(Tensor(ids), Tensor(np.ones_like(ids)))
    for name in ("plain", "draft", "draft, no prefix cache"):
        config = genai.GenerationConfig(max_new_tokens=LENGTH, do_sample=True, ignore_eos=True)
        more = {} if name == "plain" else {"draft_model": genai.draft_model(draft, "CPU")}
        config.num_assistant_tokens = 4 if more else 0
        more |= {"scheduler_config": genai.SchedulerConfig()} if "no" in name else {}
        try:
            pipe = genai.LLMPipeline(target, "CPU", **more)
            out = []
            for config.rng_seed in range(TEXTS):
                out += pipe.generate(prompt, config).tokens[0]
            print(f"{name}: p(0) = {P[0]}, got {np.mean(np.array(out) == TOKENS[0]):.4f}")
        except RuntimeError as error:
            print(f"{name}: {str(error).strip()[:90]}")


if __name__ == "__main__":
    main()
