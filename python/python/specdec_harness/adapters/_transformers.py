"""Causal language models of transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdec_harness.adapters._modules import module
from specdec_harness.tape import DraftRows


def causal_lm(model: Any) -> DraftRows:
    """The logits of a causal language model, by one pass over prompt and completion.

    They depend on the context alone. For a target, `TapeWriter.log_probs` makes log p of them; for
    a draft model, `TapeWriter.score_with` makes log q.
    """

    def rows(prompt: NDArray[np.int64], tokens: NDArray[np.int64], k: int) -> NDArray[np.float32]:
        return _read(model, prompt, tokens, lambda ids: model(ids, use_cache=False).logits)

    return rows


def early_exit(model: Any, layers: int) -> DraftRows:
    """The logits of the model's first layers, with its own final norm and head.

    As `assistant_early_exit` of transformers and LayerSkip (Elhoushi et al. 2024, arXiv
    2404.16710) draft.
    """
    most = model.config.num_hidden_layers
    if not 1 <= layers <= most:
        raise ValueError(f"layers is {layers}: allowed is 1 to {most}")

    def logits(ids: Any) -> Any:
        body = model.base_model
        found = []

        def keep(layer: Any, given: Any, hidden: Any) -> None:
            found.append(hidden[0] if isinstance(hidden, tuple) else hidden)

        hook = body.layers[layers - 1].register_forward_hook(keep)
        try:
            body(ids, use_cache=False)
        finally:
            hook.remove()
        return model.lm_head(body.norm(found[0]))

    def rows(prompt: NDArray[np.int64], tokens: NDArray[np.int64], k: int) -> NDArray[np.float32]:
        return _read(model, prompt, tokens, logits)

    return rows


def _read(
    model: Any, prompt: NDArray[np.int64], tokens: NDArray[np.int64], logits: Any
) -> NDArray[np.float32]:
    """The rows of logits that the tokens of a completion are drawn from."""
    torch = module("torch")

    if len(prompt) == 0:
        raise ValueError("the prompt is empty: a model needs a token before the first one")
    with torch.inference_mode():
        ids = torch.as_tensor(np.concatenate([prompt, tokens[:-1]]), device=model.device)
        found = logits(ids[None])[0, len(prompt) - 1 :]
    read: NDArray[np.float32] = found.float().cpu().numpy()
    return read
