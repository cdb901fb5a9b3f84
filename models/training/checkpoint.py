"""Saves checkpoints atomically, and loads them."""

from pathlib import Path

import torch

from model import Llama, LlamaConfig


def save(path: Path, content: dict) -> None:
    """Write a checkpoint next to its final name, then rename it."""
    temporary = path.with_suffix(".tmp")
    torch.save(content, temporary)
    temporary.replace(path)


def load_model(path: Path, device: str) -> tuple[Llama, dict]:
    """Rebuild the model of a checkpoint; return the model and the checkpoint's contents."""
    content = torch.load(path, map_location=device)
    model = Llama(LlamaConfig(**content["shape"])).to(device)
    model.load_state_dict(content["model"])
    return model, content
