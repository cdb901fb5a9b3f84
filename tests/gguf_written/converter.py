"""llama.cpp's converter and its library, called from Python."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

HERE = Path(__file__).parent
# The beginning of a text that tokens of single bytes and one merge can spell.
PRE_TOKENIZER = "gpt-2"


def tokenizer(tokens: int) -> dict[str, Any]:
    """Return a byte-level tokenizer; converters read no other with so few tokens.

    It is that of tests/families with another last token, which a merge makes.
    """
    file = HERE.parent / "families/llama/tokenizer.json"
    content = json.loads(file.read_text())
    names = [name.replace(" ", "Ġ") for name in content["model"]["vocab"]]
    names = [*names[: tokens - 1], "he"]
    content["model"]["vocab"] = {name: i for i, name in enumerate(names)}
    content["model"]["merges"] = ["h e"]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    content["pre_tokenizer"] = content["decoder"] = {**level, "use_regex": True}
    return content


def convert(llama_cpp: Path, folder: Path, file: Path, kind: str) -> None:
    """Run convert_hf_to_gguf.py with `--outtype KIND`; only the tokenizer is handled here."""
    if str(llama_cpp) not in sys.path:
        sys.path.insert(0, str(llama_cpp))
    import convert_hf_to_gguf
    from conversion import get_model_class
    from conversion.base import TextModel

    architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
    arguments = [str(folder), "--outfile", str(file), "--outtype", kind]
    # llama.cpp has rules for tokens of models with some names, such as that of Phi-3.
    arguments += ["--model-name", "tiny"]
    with (
        # It knows tokenizers by a hash, and looks for one of SentencePiece in some families.
        mock.patch.object(TextModel, "get_vocab_base_pre", lambda *_: PRE_TOKENIZER),
        mock.patch.object(get_model_class(architecture), "set_vocab", TextModel._set_vocab_gpt2),
        mock.patch.object(sys, "argv", ["convert_hf_to_gguf.py", *arguments]),
    ):
        convert_hf_to_gguf.main()


def weights(file: Path) -> dict[str, np.ndarray]:
    """Return the tensors of a file in f32."""
    import gguf

    tensors = gguf.GGUFReader(file).tensors
    return {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in tensors}


def compile_program(llama_cpp: Path, build: Path, program: Path) -> None:
    """Compile logits.c against the library in a build folder."""
    include = [f"-I{llama_cpp / part}" for part in ("include", "ggml/include")]
    library = build / "bin"
    link = [f"-L{library}", f"-Wl,-rpath,{library}", "-lllama", "-lggml", "-lggml-base"]
    command = ["cc", "-O1", "-o", program, HERE / "logits.c", *include, *link]
    subprocess.run(command, check=True)


def logits(program: Path, file: Path, tokens: list[int]) -> np.ndarray:
    """Return llama.cpp's logits of a text, `[positions, vocab]`."""
    text = " ".join(map(str, tokens)) + "\n"
    lines = subprocess.check_output([program, file], input=text, text=True).splitlines()
    rows = [list(map(float, line.split())) for line in lines]
    assert len(rows) == len(tokens)
    return np.array(rows)
