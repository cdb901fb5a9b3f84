"""What the recursions in numpy have in common, against which heads in PyTorch are tested."""

import numpy as np
import torch


def random_weights(model, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for name, weights in model.named_parameters():
        noise = torch.randn(weights.shape, generator=generator)
        weights.data = 1 + 0.3 * noise if "norm" in name else 0.3 * noise
    return model.float().eval()


def rms(x, weight, eps):
    return weight * x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def rotated(x, position, theta=10000.0):
    size = x.shape[-1]
    angles = position / theta ** (np.arange(0, size, 2) / size)
    cos, sin = (np.concatenate([part(angles)] * 2) for part in (np.cos, np.sin))
    low, high = np.split(x, 2, axis=-1)
    return x * cos + np.concatenate([-high, low], axis=-1) * sin


def attended(queries, keys, values):
    """What the queries (heads, size) see of keys and values (positions, key heads, size)."""
    seen = []
    for head, query in enumerate(queries):
        group = head * keys.shape[1] // len(queries)
        scores = keys[:, group] @ query / np.sqrt(len(query))
        shares = np.exp(scores - scores.max())
        seen.append(shares / shares.sum() @ values[:, group])
    return np.concatenate(seen)
