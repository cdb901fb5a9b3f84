"""Tokenise the corpus into one shard per split and domain, and write its manifest."""

import argparse
import hashlib
import json
import random
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from corpus import DOMAINS, SPLITS, documents
from tokenizer import BOS, EOS


def main() -> None:
    """Write work/shards/{split}-{domain}.bin (uint16) and work/manifest.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("work"))
    work = parser.parse_args().work
    (work / "shards").mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
    bos, eos = tokenizer.token_to_id(BOS), tokenizer.token_to_id(EOS)

    every = list(documents())
    tokenizer_bytes = (work / "tokenizer.json").read_bytes()
    manifest = {"tokenizer_sha256": hashlib.sha256(tokenizer_bytes).hexdigest(), "shards": {}}
    for split in SPLITS:
        for domain in DOMAINS:
            texts = [d.text for d in every if (d.split, d.domain) == (split, domain)]
            random.Random(0).shuffle(texts)
            encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
            ids = [np.array([bos, *e.ids, eos], dtype=np.uint16) for e in encoded]
            shard = np.concatenate(ids)
            shard.tofile(work / "shards" / f"{split}-{domain}.bin")
            size = sum(len(text.encode()) for text in texts)
            manifest["shards"][f"{split}-{domain}"] = {
                "documents": len(texts),
                "bytes": size,
                "tokens": len(shard),
                "sha256": hashlib.sha256(shard.tobytes()).hexdigest(),
            }
            print(f"{split}-{domain}: {len(shard)} tokens, {size / len(shard):.2f} bytes/token")
    (work / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main()
