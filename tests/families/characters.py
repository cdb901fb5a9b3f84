"""The tokenizer of tiny checkpoints."""

from typing import Any

FIRST = " .,:;?!'-0123456789abcdefghijklmnopqrstuvwxyz"
CHARACTERS = FIRST + "".join(chr(i) for i in range(33, 127) if chr(i) not in FIRST)


def tokenizer(tokens: int) -> dict[str, Any]:
    """Return a tokenizer whose tokens are three special ones and single characters."""
    special = ["<unk>", "<s>", "</s>"]
    names = [*special, *CHARACTERS][:tokens]
    assert len(set(names)) == tokens
    flags = ("single_word", "lstrip", "rstrip", "normalized")
    added = [
        {"id": i, "content": name, **dict.fromkeys(flags, False), "special": True}
        for i, name in enumerate(special)
    ]
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": special[0],
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "vocab": {name: i for i, name in enumerate(names)},
        "merges": [],
    }
    parts = {"normalizer": None, "pre_tokenizer": None, "post_processor": None}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        **parts,
        "decoder": {"type": "Fuse"},
        "model": model,
    }
