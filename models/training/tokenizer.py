"""Train the byte-level BPE tokenizer that target and draft share."""

import argparse
import random
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from corpus import documents

VOCABULARY = 4096
BOS, EOS = "<|bos|>", "<|eos|>"
# A word includes one leading non-letter (" foo", "_bar", ".len"), each digit is a piece, a run
# of punctuation includes its line break, and indentation except its last space is one piece.
PATTERN = (
    r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SAMPLE_BYTES = 12_000_000


def build() -> Tokenizer:
    """Return an untrained tokenizer with its pre-tokenizer, decoder and BOS rule."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def main() -> None:
    """Train on a fixed sample of the training split and save tokenizer.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("work"))
    work = parser.parse_args().work
    work.mkdir(parents=True, exist_ok=True)

    texts = [document.text for document in documents() if document.split == "train"]
    random.Random(0).shuffle(texts)
    sample, size = [], 0
    for text in texts:
        if size >= SAMPLE_BYTES:
            break
        sample.append(text)
        size += len(text)

    tokenizer = build()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BOS, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sample, trainer)
    bos = tokenizer.token_to_id(BOS)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, bos)]
    )
    assert tokenizer.get_vocab_size() == VOCABULARY
    tokenizer.save(str(work / "tokenizer.json"))


if __name__ == "__main__":
    main()
