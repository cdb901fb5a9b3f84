"""Tiny models and texts, on which a training takes seconds."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

TRAINING = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TRAINING))

from heads.export import TOKENIZER  # noqa: E402
from model import Llama, LlamaConfig  # noqa: E402

VOCAB = 160
TARGET = LlamaConfig(32, 48, 7, 4, 2, 8, VOCAB, 128)
DRAFT = LlamaConfig(16, 24, 3, 2, 1, 8, VOCAB, 128)


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Sums of one thread have one order."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def pair(tmp_path_factory) -> Path:
    """A folder with a random target and draft, whose distributions are far from uniform."""
    root = tmp_path_factory.mktemp("pair")
    for seed, (name, shape) in enumerate((("target", TARGET), ("draft", DRAFT))):
        torch.manual_seed(seed)
        model = Llama(shape)
        for parameter in model.parameters():
            parameter.data = (6 * parameter if parameter.ndim == 2 else parameter).bfloat16().detach()
        folder = root / name
        folder.mkdir()
        save_file(dict(model.state_dict()), folder / "model.safetensors")
        ends = {"bos_token_id": 0, "eos_token_id": 1}
        (folder / "config.json").write_text(json.dumps(shape.to_dict() | ends))
        for file in TOKENIZER:
            shutil.copyfile(TRAINING.parent / "target" / file, folder / file)
    return root


@pytest.fixture(scope="session")
def shards(tmp_path_factory) -> Path:
    """A folder with random texts."""
    folder = tmp_path_factory.mktemp("work") / "shards"
    folder.mkdir()
    random = np.random.default_rng(5)
    for split in ("train", "test"):
        for kind in ("code", "prose", "sampled"):
            random.integers(2, VOCAB, 9000).astype(np.uint16).tofile(folder / f"{split}-{kind}.bin")
    return folder
