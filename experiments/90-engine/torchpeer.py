"""Runs the Llama decoder of transformers on PyTorch."""

from pathlib import Path

import numpy as np
import torch
from transformers import DynamicCache, LlamaForCausalLM
from transformers.utils import logging

from common import PREFILL, PeerError, Sample, Stopwatch, package_version, tokens

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


class TorchLlama:
    """The stock model in eager mode; its cache is truncated after every pass."""

    name = "torch"

    def __init__(self, folder: Path, dtype: str, threads: int, cached: int) -> None:
        if dtype not in DTYPES:
            raise PeerError(f"the stock model does not support {dtype}")
        logging.disable_progress_bar()
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.version = package_version("torch").split("+")[0]
        self._model = LlamaForCausalLM.from_pretrained(folder, dtype=DTYPES[dtype]).eval()
        self.about = {
            "transformers": package_version("transformers"),
            "isa": torch.backends.cpu.get_cpu_capability(),
            "threads": torch.get_num_threads(),
            "attention": self._model.config._attn_implementation,
        }
        self._cached = cached
        self._cache = DynamicCache()
        self._forward(0, cached, self._cache, rows=1)

    def pass_(self, m: int) -> Sample:
        watch = Stopwatch()
        while watch.running():
            with watch:
                self._forward(self._cached, m, self._cache, rows=m)
                self._cache.crop(-m)
        return watch.sample()

    def prefill(self) -> Sample:
        watch = Stopwatch()
        while watch.running():
            with watch:
                self._forward(0, PREFILL, DynamicCache(), rows=1)
        return watch.sample()

    def logits(self, m: int) -> np.ndarray:
        row = self._forward(self._cached, m, self._cache, rows=m)[0, -1].float().numpy()
        self._cache.crop(-m)
        return row

    def rest(self) -> None:
        """Does nothing: the threads go to sleep by themselves within a few milliseconds."""

    def close(self) -> None:
        del self._model, self._cache

    def _forward(self, first: int, count: int, cache: DynamicCache, rows: int) -> torch.Tensor:
        """Runs a pass; returns the logits of its last `rows` rows: (1, rows, vocabulary)."""
        ids = torch.tensor([tokens(first, count)])
        done = self._model(ids, past_key_values=cache, use_cache=True, logits_to_keep=rows)
        return done.logits
