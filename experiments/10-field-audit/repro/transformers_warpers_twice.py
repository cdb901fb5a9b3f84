"""transformers 4.57 and 5.24: the draft model applies temperature and truncation twice.

`generate` hands its processors, warpers included, to `generate` of the draft model, which
appends those of the same generation config again. The draft is drawn from q at T² and verified as
such, so the distribution stays the target's, but fewer of its tokens are accepted: with
p = (0.6, 0.4) and q = (0.8, 0.2) at T = 0.7, 1 - TV(p, q) falls from 0.76 to 0.70.

    python transformers_warpers_twice.py
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import start  # noqa: E402, F401

import torch
import transformers
from transformers.generation.candidate_generator import AssistedCandidateGenerator
from transformers_greedy_draft import P, Q, model

TEMPERATURE = 0.7


def main() -> None:
    transformers.logging.set_verbosity_error()
    drafted, known = [], AssistedCandidateGenerator.get_candidates

    def get_candidates(self, *args, **kwargs):
        ids, logits = known(self, *args, **kwargs)
        if logits is not None:
            drafted.append(logits.softmax(-1)[0, 0])
        return ids, logits

    AssistedCandidateGenerator.get_candidates = get_candidates
    prompt = torch.zeros((1, 1), dtype=torch.long)
    sampling = {"do_sample": True, "temperature": TEMPERATURE, "top_k": 0, "max_new_tokens": 4}
    sampling["attention_mask"] = torch.ones_like(prompt)
    model(P).generate(prompt, **sampling, assistant_model=model(Q))
    p, once, twice = (
        (torch.tensor(x).log() / t).softmax(0)
        for x, t in ((P, TEMPERATURE), (Q, TEMPERATURE), (Q, TEMPERATURE**2))
    )
    print(f"transformers {transformers.__version__}, T = {TEMPERATURE}: q(0) that is drawn from")
    for name, q in (("by the engine", drafted[0]), ("q at T", once), ("q at T * T", twice)):
        print(f"  {name:14} {float(q[0]):.4f}   accepted {float(torch.minimum(p, q).sum()):.4f}")


if __name__ == "__main__":
    main()
