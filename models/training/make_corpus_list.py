"""Write corpus.json: the allow-list of crates whose sources are the training text.

Run by hand to change the corpus. Training only reads the list, so a dependency update
never changes the corpus silently: corpus.py raises an error instead.
"""

import hashlib
import json
import re
from pathlib import Path

from corpus import crate_files
from sources import cargo_packages, locked_packages, source_folder

PERMISSIVE = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}

# Generated code, platform bindings and tables: little to learn, much to memorise.
DROPPED = re.compile(
    r"^(windows.*|winapi.*|linux-raw-sys|libc|libm|nix|rustix|errno|js-sys|wasi.*|wasm-.*|wit-.*"
    r"|web-.*|objc2.*|dispatch2|block2|core-foundation.*|r-efi|redox_syscall|hermit-abi|tracing.*"
    r"|unicode-.*|encode_unicode|ttf-parser|typenum|pulp|raw-cpuid|core_arch|const-oid"
    r"|zerocopy-derive|minimal-lexical|chrono|iana.*|android.*|borsh.*|gemm-.*|portable-atomic)$"
)
SMALLEST, LARGEST_COUNT = 20_000, 120


def is_permissive(expression: str) -> bool:
    """Return whether every AND part of an SPDX expression offers a permissive licence."""
    parts = re.split(r"\s+AND\s+", expression.replace("(", "").replace(")", ""))
    return all(
        any(choice.strip() in PERMISSIVE for choice in re.split(r"\s+OR\s+|/", part))
        for part in parts
    )


def split_of(name: str) -> str:
    """Choose train, valid or test from a hash of the crate's name."""
    bucket = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 16
    return {0: "valid", 1: "test"}.get(bucket, "train")


def version_key(version: str) -> tuple[int, ...]:
    """Return a sort key: the numeric parts of a version."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def main() -> None:
    """Choose the crates and write the list next to this script."""
    metadata = cargo_packages()
    newest: dict[str, tuple[str, str]] = {}
    for name, version in locked_packages():
        known = newest.get(name)
        if known is None or version_key(version) > version_key(known[1]):
            newest[name] = (name, version)
    chosen = []
    for key in sorted(newest.values()):
        package = metadata[key]
        licence = package["license"] or ""
        if DROPPED.match(key[0]) or not is_permissive(licence):
            continue
        size = sum(path.stat().st_size for path in crate_files(source_folder(package)))
        if size >= SMALLEST:
            chosen.append((size, key, licence))
    chosen = sorted(chosen, reverse=True)[:LARGEST_COUNT]
    checksums = locked_packages()
    crates = [
        {
            "name": name,
            "version": version,
            "checksum": checksums[name, version],
            "licence": licence,
            "split": split_of(name),
        }
        for _, (name, version), licence in sorted(chosen, key=lambda entry: entry[1])
    ]
    target = Path(__file__).with_name("corpus.json")
    rows = ",\n".join("    " + json.dumps(crate) for crate in crates)
    target.write_text('{\n  "crates": [\n' + rows + "\n  ]\n}\n")
    print(f"{len(crates)} crates, {sum(size for size, _, _ in chosen) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
