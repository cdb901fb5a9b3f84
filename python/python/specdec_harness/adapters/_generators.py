"""Drafters of transformers that read the target's hidden states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdec_harness.adapters._modules import module
from specdec_harness.tape import DraftRows


def candidate_generator(target: Any, make: Callable[[Any], Any]) -> DraftRows:
    """The drafts of a candidate generator of transformers, such as its MTP and DFlash drafters.

    `make(processors)` makes a generator with these logits processors, for one completion:

        def make(processors):
            return DFlashTokenCandidateGenerator(
                head, target.get_input_embeddings(), target.get_output_embeddings(),
                GenerationConfig(max_length=4096), logits_processor=processors)

    The generator drafts at every token of the completion, in rounds that accept none of its
    tokens, and each of its tokens is drawn as the completion has it. Its logits are recorded.
    """

    def rows(prompt: NDArray[np.int64], tokens: NDArray[np.int64], k: int) -> Iterator[ArrayLike]:
        torch = module("torch")

        ids = torch.as_tensor(np.concatenate([prompt, tokens]), device=target.device)[None]
        following = _Following(ids[0])
        generator = make(following)
        with torch.inference_mode():
            states = target(ids, output_hidden_states=True, use_cache=False).hidden_states
            read = 0
            for known in range(len(prompt), ids.shape[1]):
                # The target has not read the last known token.
                own = [layer[:, read : known - 1] for layer in states]
                following.seen = []
                generator.get_candidates(
                    input_ids=ids[:, :known],
                    model_kwargs={
                        "position_ids": torch.arange(known, device=ids.device)[None],
                        "attention_mask": torch.ones_like(ids[:, :known]),
                    },
                    model_outputs=_Outputs(own),
                    is_first_iteration=False,
                    n_last_matches=0,
                )
                read = known - 1
                yield torch.stack(following.seen[:k]).float().cpu().numpy()

    return rows


class _Outputs:
    """What a generator sees of the target's last pass."""

    def __init__(self, hidden_states: list[Any]) -> None:
        self.hidden_states = hidden_states


class _Following:
    """A logits processor by which drafts follow a completion as far as it goes."""

    def __init__(self, ids: Any) -> None:
        self.ids = ids
        self.seen: list[Any] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        torch = module("torch")

        self.seen.append(scores[0].clone())
        at = input_ids.shape[-1]
        if at >= len(self.ids):
            return scores
        forced = torch.full_like(scores, -torch.inf)
        forced[..., self.ids[at]] = 0.0
        return forced
