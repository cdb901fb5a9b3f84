"""A known-wrong reading of a checkpoint."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from torch import nn
from transformers import PreTrainedModel


@dataclass(frozen=True)
class Switch:
    """One wrong reading: other keys, an edited model, or another function in its module.

    `loading` is entered while the weights are read.
    """

    label: str
    config: dict[str, Any] = field(default_factory=dict)
    edit: Callable[[PreTrainedModel], None] = lambda model: None
    functions: Callable[[PreTrainedModel], dict[str, Callable]] = lambda model: {}
    loading: Callable[[], AbstractContextManager] = nullcontext
    # What the reading must change at least, if that is less than for the others.
    least: float | None = None

    def applied(self, model: PreTrainedModel) -> ExitStack:
        """Edit a model that was loaded with `config`, and replace functions for a while."""
        self.edit(model)
        module = sys.modules[type(model).__module__]
        stack = ExitStack()
        for name, function in self.functions(model).items():
            stack.enter_context(patch.object(module, name, function))
        return stack


def each(model: PreTrainedModel, name: str) -> list[nn.Module]:
    """Return the modules with this last name, in the order of the layers."""
    return [m for path, m in model.named_modules() if path.rsplit(".", 1)[-1] == name]
