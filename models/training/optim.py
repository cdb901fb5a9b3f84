"""Muon for the matrices of the layers, AdamW for the embedding and the norms."""

import torch
from torch import Tensor, nn

ADAM_LR = {"seed": 3e-3, "target": 3e-3, "draft": 1e-2}
MUON_LR = 0.025
MOMENTUM = 0.95


def orthogonalise(stack: Tensor) -> Tensor:
    """Push the singular values of each matrix of a stack towards one (Newton-Schulz)."""
    x = stack.to(torch.bfloat16)
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT.contiguous()
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return (x.mT if tall else x).to(stack.dtype)


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised; one parameter group per matrix shape."""

    def __init__(self, matrices: list[nn.Parameter], lr: float):
        shapes: dict[torch.Size, list[nn.Parameter]] = {}
        for matrix in matrices:
            shapes.setdefault(matrix.shape, []).append(matrix)
        super().__init__([{"params": same} for same in shapes.values()], {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:
        """Apply one update."""
        for group in self.param_groups:
            updates = []
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                momentum = state["momentum"].lerp_(parameter.grad, 1 - MOMENTUM)
                updates.append(parameter.grad.lerp(momentum, MOMENTUM))
            rows, columns = group["params"][0].shape
            scale = max(1.0, rows / columns) ** 0.5
            for parameter, update in zip(group["params"], orthogonalise(torch.stack(updates))):
                parameter.add_(update, alpha=-group["lr"] * scale)


class Optimizers:
    """Both optimisers under one learning-rate factor."""

    def __init__(self, model: nn.Module, adam_lr: float):
        named = list(model.named_parameters())
        inner = [p for name, p in named if p.ndim == 2 and ".layers." in name]
        outer = [p for name, p in named if not (p.ndim == 2 and ".layers." in name)]
        self.pairs = (
            (Muon(inner, lr=MUON_LR), MUON_LR),
            (torch.optim.AdamW(outer, lr=adam_lr, betas=(0.9, 0.95), weight_decay=0.0), adam_lr),
        )

    def step(self, factor: float) -> None:
        """Update with every learning rate times ``factor``, then clear the gradients."""
        for optimizer, lr in self.pairs:
            for group in optimizer.param_groups:
                group["lr"] = lr * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)

    def state_dict(self) -> list[dict]:
        """Return both states."""
        return [optimizer.state_dict() for optimizer, _ in self.pairs]

    def load_state_dict(self, states: list[dict]) -> None:
        """Restore both states."""
        for (optimizer, _), state in zip(self.pairs, states):
            optimizer.load_state_dict(state)


def schedule(done: float, warmup: float = 0.02, decay: float = 0.3) -> float:
    """Return the learning-rate factor: warm-up, plateau, linear decay to zero."""
    return min(1.0, done / warmup, max(0.0, (1.0 - done) / decay))
