"""Checks that llama.cpp reads the embedded pair as specdec does.

    python experiments/90-engine/pair_check.py

Compares the tokens of texts, and the greedy texts after the code prompts with weights in f32.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import argparse

from common import MODELS, PeerError
from decoding import Entry, Specdec
from ggufs import QUANTISED, TYPES, gguf_file, types
from llamatext import LlamaText
from pair import arguments, read_prompts
from peers import OURS

TEXTS = (
    "",
    " ",
    'fn main() {\n    println!("{}", 1_000_000u64 << 3);\n}\n',
    "impl<'a, T: 'static + ?Sized> Deref for Guard<'a, T> {\r\n\ttype Target = T;\r\n}",
    # Labels that begin like English contractions, which other expressions split off.
    "'main: loop {\n'read: loop {\n break 'main;\n}\n}",
    "/// Returns `None` if it isn't there; don't panic, we've checked and they'll agree.",
    "A paragraph \u2013 with \u201cquotes\u201d \u2013 in prose. It's short.\n\n\n  The next one.",
    "0 1 12 123 1234 3.14159 0xdead_beef 1e-9 \u0663\u0664\u0665 \u2167 \u00bd",
    "na\u00efve caf\u00e9 \u0130stanbul \u0395\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac",
    "\u0440\u0443\u0441\u0441\u043a\u0438\u0439 \u0391\u0301",
    "\u4e2d\u6587 \u65e5\u672c\u8a9e \ud55c\uad6d\uc5b4 \U0001f980 e\u0301 a\u0308\u0323",
    "\u200d\u00a0\u3000\ufeff \t\x0b\x0c x\u2028y",
    "   leading\ttabs\t\t  trailing   \n   \n \n",
)
# A difference of two logits up to this share of the larger one is a tie: both engines compute in
# f32, but add up in different orders.
TIE = 1e-4
# The share of next tokens that rounded weights must leave as they are.
MOSTLY = 0.8


def main() -> None:
    args = arguments()
    try:
        agree = check(args)
    except PeerError as error:
        sys.exit(f"{error}")
    sys.exit(not agree)


def check(args: argparse.Namespace) -> bool:
    """Whether tokens and greedy texts agree."""
    specdec = Specdec(args.specdec, args.threads)
    prompts = read_prompts(args.prompts)
    for model in ("target", "draft"):
        describe(model, args.work)
    llama = LlamaText(
        gguf_file(MODELS / "target", "f32", args.work), args.threads, exact_cache=True
    )
    agree = same_tokens([*TEXTS, *prompts.values()], specdec, llama)
    agree &= same_texts(prompts, args.tokens, specdec, llama)
    agree &= same_choices(prompts, args, llama)
    llama.close()
    return agree


def describe(model: str, work: Path) -> None:
    """Prints in which types the files of a model hold its matrices."""
    for dtype in (*TYPES, *QUANTISED):
        file = gguf_file(MODELS / model, dtype, work)
        counts = ", ".join(f"{count} x {name}" for name, count in types(file).items())
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB, matrices: {counts}", flush=True)


def same_tokens(texts: list[str], specdec: Specdec, llama: LlamaText) -> bool:
    """Whether all texts have the same tokens in llama.cpp as in specdec."""
    different = 0
    for text in texts:
        if llama.tokenize(text) != specdec.tokenize(text):
            different += 1
            print(f"different tokens: {text!r}", flush=True)
    print(f"tokens: {len(texts) - different} of {len(texts)} texts agree", flush=True)
    return not different


def same_texts(prompts: dict[str, str], most: int, specdec: Specdec, llama: LlamaText) -> bool:
    """Whether the greedy texts are the same, or part at a tie."""
    entry = Entry(OURS, "f32", 0)
    same = ties = 0
    for name, prompt in prompts.items():
        ours = specdec.decode(entry, prompt, most, 0).tokens
        theirs = llama.decode(entry, prompt, most, 0).tokens
        parted = [at for at, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]]
        if not parted:
            same += len(ours) == len(theirs)
            continue
        at = parted[0]
        prefix = llama.tokenize(prompt) + ours[:at]
        gap, size = llama.gap(prefix, theirs[at], ours[at])
        ties += gap <= TIE * size
        print(f"{name}: texts part at token {at}; logits {gap:.1e} apart, the larger is {size:.2f}")
    print(f"greedy texts: {same} of {len(prompts)} agree, {ties} part at a tie", flush=True)
    return same + ties == len(prompts)


def same_choices(prompts: dict[str, str], args: argparse.Namespace, exact: LlamaText) -> bool:
    """Whether the other dtypes mostly prefer the same next tokens as f32."""
    texts = [exact.tokenize(prompt) for prompt in prompts.values()]
    expected = [token for text in texts for token in exact.choices(text)]
    agree = True
    for dtype in (*TYPES, *QUANTISED):
        llama = LlamaText(gguf_file(MODELS / "target", dtype, args.work), args.threads)
        found = [token for text in texts for token in llama.choices(text)]
        llama.close()
        same = sum(a == b for a, b in zip(expected, found)) / len(expected)
        agree &= same > MOSTLY
        print(f"{dtype}: {same:.1%} of the next tokens are those of f32", flush=True)
    return agree


if __name__ == "__main__":
    main()
