"""Sample text from the target and store its next-token distributions for distillation.

The target runs once over every window; the draft then reads the stored distributions many
times. For each position, the TOP most likely tokens and their log-probabilities are stored;
the loss treats the remaining mass as one bucket.
"""

import argparse
import copy
import os
from pathlib import Path

import numpy as np
import torch
import torch.multiprocessing as mp
from numpy.lib.format import open_memmap
from torch import Tensor

from checkpoint import load_model
from data import Mixture, Windows
from model import Llama
from sample import continuations

CONTEXT, TOP = 512, 128
ROWS = 4  # windows per pass
PROMPT, GENERATED, SAMPLE_ROWS = 32, 480, 128
SEED = 11


def sample_text(target: Llama, shards: Path, tokens: float, device: str) -> None:
    """Write target samples at temperature 1 that begin with training text."""
    path = shards / "sampled.bin"
    if path.exists():
        return
    mixture = Mixture(shards, SAMPLE_ROWS * PROMPT, SEED)
    fast = copy.deepcopy(target).to(torch.bfloat16)
    batches = []
    for index in range(max(1, round(tokens / (SAMPLE_ROWS * GENERATED)))):
        prompts = mixture.batch(PROMPT, index)[:, :PROMPT].to(device)
        found = continuations(fast, prompts, GENERATED, temperature=1.0)
        batches.append(found.cpu().numpy().astype(np.uint16))
    temporary = path.with_suffix(".tmp")
    np.concatenate(batches).tofile(temporary)
    temporary.replace(path)


def choose_windows(shards: Path, text_tokens: float) -> np.ndarray:
    """Return the windows to score: training text, mixed as in training, and all samples."""
    mixture = Mixture(shards, ROWS * CONTEXT, SEED)
    count = round(text_tokens / (ROWS * CONTEXT))
    text = [mixture.batch(CONTEXT, index).numpy() for index in range(count)]
    sampled = Windows(shards / "sampled.bin", CONTEXT, SEED)
    own = [sampled.batch(index, ROWS) for index in range(sampled.per_epoch // ROWS)]
    return np.concatenate(text + own)[:, :CONTEXT].astype(np.uint16)


class Scorer:
    """Scores chunks of windows into the shared files of a folder."""

    def __init__(self, folder: Path, checkpoint: Path, device: str, compiled: bool):
        self.tokens = np.load(folder / "tokens.npy", mmap_mode="r")
        self.ids = np.load(folder / "ids.npy", mmap_mode="r+")
        self.logs = np.load(folder / "logs.npy", mmap_mode="r+")
        self.device = device
        target, _ = load_model(checkpoint, device)
        self.target = torch.compile(target) if compiled else target

    @torch.no_grad()
    def score(self, chunk: int) -> int:
        """Score one chunk and return its number."""
        rows = slice(chunk * ROWS, (chunk + 1) * ROWS)
        windows = torch.from_numpy(self.tokens[rows].astype(np.int64)).to(self.device)
        with torch.autocast(self.device, dtype=torch.bfloat16):
            logits: Tensor = self.target(windows)
        logs, ids = logits.float().log_softmax(-1).topk(TOP, dim=-1)
        self.logs[rows] = logs.cpu().numpy().astype(np.float16)
        self.ids[rows] = ids.cpu().numpy().astype(np.uint16)
        return chunk


def begin(*arguments) -> None:
    """Prepare one scoring process."""
    global scorer
    torch.set_num_threads(1)
    scorer = Scorer(*arguments)


def score(chunk: int) -> int:
    """Score one chunk in a scoring process."""
    return scorer.score(chunk)


def create(folder: Path, windows: np.ndarray) -> None:
    """Create the empty files, ``tokens.npy`` last: if it exists, all files exist."""
    folder.mkdir(exist_ok=True)
    shape = *windows.shape, TOP
    open_memmap(folder / "ids.npy", "w+", np.uint16, shape).flush()
    open_memmap(folder / "logs.npy", "w+", np.float16, shape).flush()
    np.save(folder / "done.npy", np.zeros(len(windows) // ROWS, dtype=bool))
    np.save(folder / "tokens.npy", windows)


def main() -> None:
    """Sample text, choose windows and score those that are not scored yet."""
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=float, required=True, help="tokens of training text")
    parser.add_argument("--sampled", type=float, required=True, help="tokens from the target")
    parser.add_argument("--work", type=Path, default=Path("work"))
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    parser.add_argument("--workers", type=int, default=1 if cuda else os.cpu_count())
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(SEED)
    (args.work / "teacher.pid").write_text(f"{os.getpid()}\n")

    folder, checkpoint = args.work / "teacher", args.work / "target.pt"
    if not (folder / "tokens.npy").exists():
        target, _ = load_model(checkpoint, args.device)
        target.requires_grad_(False)
        sample_text(target, args.work / "shards", args.sampled, args.device)
        create(folder, choose_windows(args.work / "shards", args.text))
    done = np.load(folder / "done.npy", mmap_mode="r+")
    initial = folder, checkpoint, args.device, not args.no_compile
    with mp.get_context("spawn").Pool(args.workers, begin, initial) as pool:
        for chunk in pool.imap_unordered(score, np.flatnonzero(~done).tolist()):
            done[chunk] = True
    print(f"{done.sum() * ROWS * CONTEXT} tokens scored")


if __name__ == "__main__":
    main()
