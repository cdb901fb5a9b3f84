"""Writes tests/fixtures/ggml_words.json: where pre-tokenizers split texts, by llama.cpp.

    pip install regex==2026.11.15
    python experiments/94-gguf-vocabularies/words.py

It needs Python 3.11 or newer with pip, and a C++ compiler.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import argparse
import json
import re
import subprocess
import tarfile
import tempfile

import regex
from run import ARCHIVE, REPOSITORY, archive, cases, unpacked

SOURCES = f"{ARCHIVE.removesuffix('.tar.gz')}/vendor/llama.cpp/src"
FIXTURE = REPOSITORY / "tests" / "fixtures" / "ggml_words.json"

# One name of each pre-tokenizer.
NAMES = [
    "default", "gpt-2", "smollm", "llama-bpe", "dbrx", "qwen2", "qwen35", "ufakzeka",
    "seed-coder", "falcon", "deepseek-llm", "deepseek-coder", "deepseek-v3", "bloom", "viking",
]  # fmt: skip
# For these llama.cpp knows the original pattern, but uses one that only agrees on ASCII.
ORIGINALS = {"tekken": "TEKKEN", "gpt-4o": "GPT4O"}
# The vocabularies whose texts are split.
TEXTS = ["llama-bpe", "qwen35"]

# Splits the texts of one file by the patterns of another; \1 and \0 separate both.
PROGRAM = """
#include "unicode.h"
#include <fstream>
#include <iostream>
#include <sstream>

static std::vector<std::string> parts(const char * path, char between) {
    std::ifstream file(path, std::ios::binary);
    std::vector<std::string> found;
    for (std::string part; std::getline(file, part, between);) {
        found.push_back(part);
    }
    return found;
}

int main(int, char ** args) {
    const auto patterns = parts(args[1], '\\1');
    for (const auto & text : parts(args[2], '\\0')) {
        for (const auto & word : unicode_regex_split(text, patterns, false)) {
            std::cout << word << '\\1';
        }
        std::cout << '\\0';
    }
}
"""


def literals(code: str) -> list[str]:
    """The C++ string literals in a piece of code that are not in comments."""
    escapes = {"n": "\n", "r": "\r", "t": "\t"}
    found = []
    for line in code.splitlines():
        if not line.strip().startswith("//"):
            found += re.findall(r'"((?:[^"\\]|\\.)*)"', line)
    return [re.sub(r"\\(.)", lambda m: escapes.get(m[1], m[1]), text) for text in found]


def patterns(source: str, name: str) -> list[str]:
    """The patterns with which llama.cpp splits a text for this `tokenizer.ggml.pre`."""
    named = source.index(f'tokenizer_pre == "{name}"')
    kind = re.search(r"pre_type = LLAMA_VOCAB_PRE_TYPE_(\w+)", source[named:])[1]
    case = source.find(f"case LLAMA_VOCAB_PRE_TYPE_{kind}:")
    if case < 0:
        case = source.index("// default regex for BPE")
    begin = source.index("regex_exprs = {", case)
    return literals(source[begin : source.index("};", begin)])


def original(source: str, kind: str) -> str:
    """The pattern of a model's own tokenizer, which llama.cpp quotes in a comment."""
    case = source.index(f"case LLAMA_VOCAB_PRE_TYPE_{kind}:")
    quoted = source.index("original regex from tokenizer.json", case)
    comment = source[source.index("\n", quoted) + 1 :].split("\n", 1)[0]
    return literals(comment.strip().removeprefix("//"))[0]


def isolated(pattern: str, text: str) -> list[str]:
    """The matches of a pattern and what lies between them."""
    words, done = [], 0
    for match in regex.finditer(pattern, text):
        words += [text[done : match.start()], match[0]]
        done = match.end()
    return [word for word in [*words, text[done:]] if word]


class Splitter:
    """llama.cpp's own splitting, compiled."""

    def __init__(self, file: Path, folder: Path) -> None:
        with tarfile.open(file) as content:
            names = [member for member in content if member.name.startswith(f"{SOURCES}/unicode")]
            content.extractall(folder, names, filter="data")
        self.folder = folder
        self.program = folder / "split"
        main = folder / "main.cpp"
        main.write_text(PROGRAM)
        sources = [main, *sorted((folder / SOURCES).glob("unicode*.cpp"))]
        command = ["c++", "-std=c++17", "-O1", f"-I{folder / SOURCES}", "-o", self.program]
        subprocess.run([*command, *sources], check=True)

    def words(self, patterns: list[str], texts: list[str]) -> list[list[str]]:
        files = self.folder / "patterns", self.folder / "texts"
        files[0].write_bytes("\1".join(patterns).encode())
        files[1].write_bytes("\0".join(texts).encode())
        out = subprocess.run([self.program, *files], check=True, capture_output=True).stdout
        texts = out.decode().split("\0")[:-1]
        return [text.split("\1")[:-1] for text in texts]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--downloads", type=Path, help=f"a folder that has or gets {ARCHIVE}")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        file = archive(chosen.downloads or folder)
        files = {path.name: path for path in unpacked(file, folder)}
        found = [text for name in TEXTS for text, _ in cases(files[f"ggml-vocab-{name}.gguf"])]
        texts = list(dict.fromkeys(found))
        with tarfile.open(file) as content:
            source = content.extractfile(f"{SOURCES}/llama-vocab.cpp").read().decode()
        splitter = Splitter(file, folder)
        words = {name: splitter.words(patterns(source, name), texts) for name in NAMES}
    for name, kind in ORIGINALS.items():
        words[name] = [isolated(original(source, kind), text) for text in texts]
    for split in words.values():
        assert all("".join(one) == text for one, text in zip(split, texts, strict=True))
    # The lengths of the words in characters.
    lengths = {name: [[len(w) for w in one] for one in split] for name, split in words.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(one)}" for name, one in lengths.items()]
    FIXTURE.parent.mkdir(exist_ok=True)
    texts = json.dumps(texts, ensure_ascii=False)
    split = ",\n".join(lines).replace(", ", ",")
    FIXTURE.write_text(f'{{"texts": {texts},\n"words": {{\n{split}\n}}}}\n')


if __name__ == "__main__":
    main()
