"""Logits of transformers' own code in double precision.

transformers computes norms, softmax and rotary tables in f32 even if everything else is
f64. Here its code runs with those steps in f64 too. Angles alone stay as they are defined:
a frequency is rounded to f32, and so is its product with the position.
"""

from contextlib import nullcontext

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

WIDE = {torch.float32: torch.float64}


def widened(args: tuple, kwargs: dict | None) -> tuple[tuple, dict]:
    """Return arguments that ask for f64 where they asked for f32."""
    wide = lambda x: WIDE.get(x, x) if isinstance(x, torch.dtype) else x
    return tuple(map(wide, args)), {key: wide(x) for key, x in (kwargs or {}).items()}


class Everything(TorchFunctionMode):
    """Computes in f64 what asks for f32: for frequencies."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Run one function of torch."""
        args, kwargs = widened(args, kwargs)
        return func(*args, **kwargs)


class KeepWide(TorchFunctionMode):
    """Keeps f64 tensors f64 and takes the cosine and sine of f32 angles in f64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Run one function of torch."""
        tensor = args[0] if args and isinstance(args[0], Tensor) else None
        if tensor is not None and tensor.dtype == torch.float64:
            args, kwargs = widened(args, kwargs)
            func = Tensor.double if func is Tensor.float else func
        elif func in (Tensor.cos, Tensor.sin):
            args = (tensor.double(),)
        return func(*args, **(kwargs or {}))


def set_frequencies(rotary: torch.nn.Module, config: PreTrainedConfig) -> None:
    """Replace the frequencies by ones computed in f64 and rounded to f32 once."""
    with Everything():
        fresh = type(rotary)(config)
        if getattr(rotary, "rope_type", None) == "longrope":
            original = config.rope_parameters["original_max_position_embeddings"]
            frequencies, _ = ROPE_INIT_FUNCTIONS["longrope"](config, seq_len=original + 1)
            rotary.long_inv_freq = frequencies.float()
    for name, frequencies in fresh.named_buffers():
        assert frequencies.dtype == torch.float64
        getattr(rotary, name).copy_(frequencies)


def widen(model: PreTrainedModel, frequencies: bool = True) -> PreTrainedModel:
    """Make a model of f32 weights compute in f64, its rotary frequencies included or not."""
    for parameter in model.parameters():
        parameter.data = parameter.data.double()
    if frequencies and (rotary := getattr(model.base_model, "rotary_emb", None)):
        set_frequencies(rotary, model.config)
    return model


def routers(model: PreTrainedModel) -> list[torch.nn.Module]:
    """Return the modules that choose experts, in the order of the layers."""
    return [module for module in model.modules() if type(module).__name__.endswith("TopKRouter")]


def routes(model: PreTrainedModel, tokens: list[int]) -> list[tuple[Tensor, Tensor]]:
    """Return the logits of each router, `[positions, experts]`, and the experts it chooses."""
    seen: list[tuple[Tensor, Tensor]] = []
    note = lambda router, inputs, outputs: seen.append((outputs[0], outputs[2]))
    hooks = [router.register_forward_hook(note) for router in routers(model)]
    logits(model, tokens)
    for hook in hooks:
        hook.remove()
    return seen


@torch.no_grad()
def logits(model: PreTrainedModel, tokens: list[int]) -> Tensor:
    """Return the logits at every position, `[positions, vocab]`, in the model's precision."""
    dtype = next(model.parameters()).dtype
    with KeepWide() if dtype == torch.float64 else nullcontext():
        result = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    assert result.dtype == dtype
    return result
