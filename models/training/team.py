"""Computes the gradients of one step in several single-threaded processes.

Every process takes the next micro-batch when it is free, so a core that is busy with other
work slows a step down only by its share; threads within an operation would all wait for the
slowest one. A team of one is ordinary training (use that on a GPU).
"""

import multiprocessing
import os
import threading
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.multiprocessing as mp
from torch import Tensor, nn


class Source(Protocol):
    """Where micro-batches come from; must be picklable."""

    def batch(self, context: int, index: int) -> Tensor | tuple[Tensor, ...]:
        """Return micro-batch ``index`` of windows of the given context."""


@dataclass
class Shared:
    """The state that the processes of a team share."""

    start: object
    end: object
    following: object
    order: Tensor  # context, first index, end index, phase; context 0 means stop
    totals: Tensor  # one row per process: sums of the objective's outputs


def parameters(objective: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that are trained."""
    return [p for p in objective.parameters() if p.requires_grad]


def run_share(objective, source: Source, shared: Shared, totals: Tensor, device: str) -> None:
    """Process micro-batches until none is left; gradients accumulate in ``.grad``."""
    context, first, end, phase = shared.order.tolist()
    while True:
        with shared.following.get_lock():
            index = first + shared.following.value
            shared.following.value += 1
        if index >= end:
            return
        batch = source.batch(context, index)
        if isinstance(batch, tuple):
            batch = tuple(part.to(device) for part in batch)
        else:
            batch = batch.to(device)
        with torch.autocast(device, dtype=torch.bfloat16):
            outputs = objective(batch, phase)
        (outputs[0] / (end - first)).backward()
        totals += outputs.detach().float().cpu()


def end_with_parent() -> None:
    """End this process as soon as its parent has ended, for any reason."""
    multiprocessing.parent_process().join()
    os._exit(1)


def serve(
    rank: int,
    objective: nn.Module,
    grads: list[Tensor],
    source: Source,
    shared: Shared,
    compiled: bool,
) -> None:
    """Run one helper process."""
    torch.set_num_threads(1)
    threading.Thread(target=end_with_parent, daemon=True).start()
    for parameter, grad in zip(parameters(objective), grads):
        parameter.grad = grad
    call = torch.compile(objective) if compiled else objective
    while True:
        shared.start.wait()
        if shared.order[0] == 0:
            return
        run_share(call, source, shared, shared.totals[rank], "cpu")
        shared.end.wait()


class Team:
    """This process and ``size - 1`` helpers. ``objective`` returns a vector; its first entry
    is the loss."""

    def __init__(
        self,
        objective: nn.Module,
        source: Source,
        size: int,
        outputs: int,
        device: str,
        compiled: bool,
    ):
        self.objective, self.source, self.device, self.size = objective, source, device, size
        self.call = torch.compile(objective) if compiled else objective
        self.params = parameters(objective)
        context = mp.get_context("spawn")
        self.shared = Shared(
            context.Barrier(size),
            context.Barrier(size),
            context.Value("q", 0),
            torch.zeros(4, dtype=torch.int64).share_memory_(),
            torch.zeros(size, outputs).share_memory_(),
        )
        self.grads: list[list[Tensor]] = []
        if size > 1:
            objective.share_memory()
        for rank in range(1, size):
            grads = [torch.zeros_like(p).share_memory_() for p in self.params]
            self.grads.append(grads)
            work = rank, objective, grads, source, self.shared, compiled
            context.Process(target=serve, args=work, daemon=True).start()
        for parameter in self.params:
            parameter.grad = torch.zeros_like(parameter)

    def gradients(self, context: int, first: int, count: int, phase: int = 0) -> list[float]:
        """Add the mean gradient of ``count`` micro-batches to ``.grad``; return mean outputs."""
        shared = self.shared
        shared.order.copy_(torch.tensor([context, first, first + count, phase]))
        shared.totals.zero_()
        shared.following.value = 0
        threads = torch.get_num_threads()
        if self.size > 1:
            torch.set_num_threads(1)
            shared.start.wait()
        run_share(self.call, self.source, shared, shared.totals[0], self.device)
        if self.size > 1:
            shared.end.wait()
            torch.set_num_threads(threads)
        for grads in self.grads:
            for parameter, grad in zip(self.params, grads):
                parameter.grad.add_(grad)
                grad.zero_()
        return (shared.totals.sum(0) / count).tolist()

    def close(self) -> None:
        """Stop the helpers."""
        self.shared.order.zero_()
        if self.size > 1:
            self.shared.start.wait()
