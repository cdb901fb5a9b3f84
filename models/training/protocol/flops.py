"""Counts the FLOPs of a training.

The formula: two for each multiply-add of matrix products and of attention, in the target's forward
pass and in the drafter's forward and backward pass, as often as the recipe computes them.
Attention counts every pair of a query and a key, hidden ones too. Norms, softmaxes, embedding
look-ups and the optimiser are not counted. A drafter's training counts the target's pass in full.
"""

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from protocol.objective import Lesson, Objective


def per_micro_batch(objective: Objective, lesson: Lesson) -> dict[str, int]:
    """Return the FLOPs of the target's pass over a micro-batch, and of all else."""
    found = {}
    with sdpa_kernel(SDPBackend.MATH):  # whose products the counter sees in every version
        with FlopCounterMode(display=False) as counter:
            taught = objective.teacher(lesson[0])
        found["target"] = counter.get_total_flops()
        with FlopCounterMode(display=False) as counter:
            objective(lesson, taught)[0].backward()
        found["drafter"] = counter.get_total_flops()
    objective.zero_grad(set_to_none=True)
    return found
