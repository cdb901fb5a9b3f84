"""transformers 4.41 to 4.44: assisted generation does not draw from the target's distribution.

The draft model proposes its most probable token (`do_sample = False` in the constructor of
`AssistedCandidateGenerator`), and `_speculative_sampling` accepts it with p(x)/q(x) as if it had
been drawn from q. Two models of two tokens, whose distributions do not depend on the context, and
`generate` as users call it. With p = (0.6, 0.4) and q = (0.8, 0.2), token 0 comes out with
probability 0.6 / 0.8 = 0.75.

    python transformers_greedy_draft.py     # in a venv with transformers==4.44.2, then a later one
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import start  # noqa: E402, F401

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

DRAWS = 4000
P, Q = [0.6, 0.4], [0.8, 0.2]


def model(probs: list[float]) -> LlamaForCausalLM:
    """A model that predicts `probs` after any context."""
    shape = {"hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 1}
    ids = {"vocab_size": 2, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    made = LlamaForCausalLM(LlamaConfig(**shape, **ids, num_attention_heads=1)).eval()
    for weight in made.parameters():
        weight.data.zero_()
    made.model.embed_tokens.weight.data.fill_(1.0)
    made.model.norm.weight.data.fill_(1.0)
    # The last hidden state is all ones.
    made.lm_head.weight.data[:, 0] = torch.tensor(probs).log()
    return made


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    target, draft = model(P), model(Q)
    prompt = torch.zeros((1, 1), dtype=torch.long)
    sampling = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
    sampling |= {"max_new_tokens": 2, "attention_mask": torch.ones_like(prompt)}
    zeros = {"plain": 0, "assisted": 0}
    for _ in range(DRAWS):
        for name, assistant in (("plain", {}), ("assisted", {"assistant_model": draft})):
            # The first of two tokens: with the last one, no draft is asked for.
            zeros[name] += int(target.generate(prompt, **sampling, **assistant)[0, 1]) == 0
    error = (P[0] * P[1] / DRAWS) ** 0.5
    print(f"transformers {transformers.__version__}, {DRAWS} draws, p(0) = {P[0]}")
    for name, count in zeros.items():
        print(f"{name:9} {count / DRAWS:.4f}   z = {(count / DRAWS - P[0]) / error:+.1f}")


if __name__ == "__main__":
    main()
