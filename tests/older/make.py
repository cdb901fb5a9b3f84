"""Write checkpoints in the layouts of older ones, as torch and SentencePiece themselves write them.

    pip install -r tests/older/requirements.txt
    python tests/older/make.py

Weights are those of checkpoints in tests/families, so each folder here has the logits of its
namesake there. tests/older/README.md says what each file is for.
"""

import json
import shutil
import tempfile
import zipfile
from collections import OrderedDict
from pathlib import Path

import sentencepiece
import torch
from safetensors.torch import load_file
from sentencepiece import sentencepiece_model_pb2
from torch import Tensor, nn
from transformers import AutoTokenizer

HERE = Path(__file__).parent
FAMILIES = HERE.parent / "families"
MOST_BYTES = 30_000


def family(name: str) -> OrderedDict[str, Tensor]:
    """Return the weights of a checkpoint of tests/families."""
    return OrderedDict(sorted(load_file(FAMILIES / name / "model.safetensors").items()))


def write_shards(folder: Path, weights: dict[str, Tensor]) -> None:
    """Write weights as two files with their list, as transformers 4 did."""
    names = list(weights)
    index = {}
    for number, shard in enumerate([names[: len(names) // 2], names[len(names) // 2 :]], 1):
        file = f"pytorch_model-{number:05}-of-00002.bin"
        torch.save(OrderedDict((name, weights[name]) for name in shard), folder / file)
        index |= dict.fromkeys(shard, file)
    content = {"metadata": {}, "weight_map": index}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(content, indent=1) + "\n")


def tied(folder: Path) -> None:
    """Two shards in f32; the head is the embedding, under a name of its own."""
    weights = family("llama")
    head = OrderedDict({"lm_head.weight": weights["model.embed_tokens.weight"]})
    write_shards(folder, head | weights)


def views(folder: Path) -> None:
    """One file in bf16, whose tensors all lie in one storage."""
    weights = family("llama_linear")
    storage = torch.cat([tensor.flatten() for tensor in weights.values()])
    parts = storage.split([tensor.numel() for tensor in weights.values()])
    shaped = zip(weights.items(), parts)
    state = OrderedDict((name, part.view(tensor.shape)) for (name, tensor), part in shaped)
    torch.save(state, folder / "pytorch_model.bin")


def buffers(folder: Path) -> None:
    """Two shards in f16, of parameters, with what else a state dict holds."""
    weights = family("llama_linear")
    state = {name: nn.Parameter(tensor.half()) for name, tensor in weights.items()}
    for layer in range(2):
        attention = f"model.layers.{layer}.self_attn"
        state[f"{attention}.rotary_emb.inv_freq"] = 1 / 10000 ** (torch.arange(3) / 3)
        state[f"{attention}.bias"] = torch.ones(4, 4, dtype=torch.bool).tril().view(1, 1, 4, 4)
    state["steps"] = torch.tensor(7)
    state["scale"] = torch.tensor([0.5], dtype=torch.float64)
    state["turned"] = torch.arange(6.0).view(2, 3).t()
    state["repeated"] = torch.ones(3).expand(2, 3)
    state["none"] = torch.empty(0, 3)
    state["version"] = 3
    write_shards(folder, state)


def odd(folder: Path) -> None:
    """Files that are refused: their first tensor is what a model asks for first."""
    table = family("llama")["model.embed_tokens.weight"]
    name = "model.embed_tokens.weight"
    torch.save({name: table.t().contiguous().t()}, folder / "transposed.bin")
    torch.save({name: table[:1].expand(48, 24)}, folder / "repeated.bin")
    small = {name: table[:2].clone()}
    torch.save(small, folder / "before_1_6.bin", _use_new_zipfile_serialization=False)
    torch.save({name: table[:2].to(torch.float8_e4m3fn)}, folder / "float8.bin")
    torch.save(nn.Linear(2, 2), folder / "module.bin")
    torch.save([table[:2].clone()], folder / "list.bin")
    torch.save(small, folder / "plain.bin")
    with (
        zipfile.ZipFile(folder / "plain.bin") as plain,
        zipfile.ZipFile(folder / "compressed.bin", "w", zipfile.ZIP_DEFLATED) as compressed,
    ):
        for entry in plain.namelist():
            compressed.writestr(entry, plain.read(entry))
    (folder / "plain.bin").unlink()


TEXTS = [
    "",
    " ",
    "   ",
    "a",
    "The quick brown fox jumps over the lazy dog.",
    "  two spaces before, two  between,   three after   ",
    "\ta tab\nand a line\r\n\n\nand lines",
    "\u2581 a\u2581b \u2581\u2581",
    "fn main() {\n    println!(\"{}\", 1234567890);\n}\n",
    "na\u00efve caf\u00e9 \u2014 \u00fcber \u4e2d\u6587 \U0001f980\u200d\U0001f9c0 e\u0301 \ufb01",
    "a</s>b<s><unk>c<0x41>",
    "USER: hello ASSISTANT:",
    "\u00a0\u3000wide spaces\u2003",
    "\x00\x01\x7f\ufeff",
    "the the the  the",
    "1 22 333 4444",
]


def train(corpus: list[str], **options) -> bytes:
    """Return a model that SentencePiece trains."""
    usual = dict(
        model_type="bpe", vocab_size=440, byte_fallback=True, split_digits=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False,
        character_coverage=0.99, num_threads=1,
        allow_whitespace_only_pieces=True, minloglevel=2,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        prefix = Path(folder) / "made"
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus), model_prefix=str(prefix), **(usual | options)
        )
        return prefix.with_suffix(".model").read_bytes()


def pieces(folder: Path) -> None:
    """SentencePiece models, and the tokens that the package gives to texts."""
    license = HERE.parent.parent / "LICENSE-APACHE"
    corpus = [line for line in license.read_text().splitlines() if line.strip()] + TEXTS[3:] * 2
    makers = {
        "llama": {},
        "one_space": dict(remove_extra_whitespaces=True),
        "no_prefix": dict(add_dummy_prefix=False),
        "unigram": dict(model_type="unigram", vocab_size=420),
        "no_bytes": dict(byte_fallback=False, vocab_size=300),
        "nfkc": dict(normalization_rule_name="nmt_nfkc"),
        "suffix": dict(treat_whitespace_as_suffix=True),
        "user_defined": dict(user_defined_symbols=["<user>"]),
    }
    expected = {}
    for name, options in makers.items():
        model = sentencepiece_model_pb2.ModelProto.FromString(train(corpus, **options))
        # The corpus and paths are in it otherwise.
        for field in ("input", "model_prefix"):
            model.trainer_spec.ClearField(field)
        if name == "nfkc":
            # A map of 240 kB; that there is one is enough.
            model.normalizer_spec.precompiled_charsmap = b"\x04\x00\x00\x00map"
        content = model.SerializeToString()
        (folder / f"{name}.model").write_bytes(content)
        if name in ("llama", "one_space", "no_prefix"):
            processor = sentencepiece.SentencePieceProcessor(model_proto=content)
            expected[name] = {
                "vocab": processor.get_piece_size(),
                "ids": [processor.encode(text) for text in TEXTS],
                "decoded": [processor.decode(processor.encode(text)) for text in TEXTS],
            }
    content = {"texts": TEXTS, "models": expected}
    (folder / "expected.json").write_text(json.dumps(content, indent=1) + "\n")
    controls(folder)


CONTROLS = ["<s>USER: hello</s>USER: a fox</s>", "a<tool>b</s></s>c\n<s>d", "<tool>the fox"]


def controls(models: Path) -> None:
    """The tokens that transformers gives to texts with control tokens and added ones."""
    found = {}
    for legacy in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(models / "llama.model", Path(folder) / "tokenizer.model")
            added = {
                "content": "<tool>", "lstrip": False, "normalized": False, "rstrip": False,
                "single_word": False, "special": False,
            }  # fmt: skip
            config = {
                "tokenizer_class": "LlamaTokenizer", "legacy": legacy,
                "add_bos_token": True, "add_eos_token": True,
                "added_tokens_decoder": {"440": added},
            }  # fmt: skip
            (Path(folder) / "tokenizer_config.json").write_text(json.dumps(config))
            (Path(folder) / "config.json").write_text(json.dumps({"model_type": "llama"}))
            tokenizer = AutoTokenizer.from_pretrained(folder)
            ids = [tokenizer.encode(text) for text in CONTROLS]
            found["legacy" if legacy else "newer"] = {"config": config, "ids": ids}
    content = {"texts": CONTROLS, "settings": found}
    (models / "controls.json").write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    """Write all folders."""
    makers = {
        "llama": tied,
        "llama_views": views,
        "llama_buffers": buffers,
        "odd": odd,
        "sentence_piece": pieces,
    }
    for name, make in makers.items():
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        make(folder)
        for file in folder.iterdir():
            size = file.stat().st_size
            assert size <= MOST_BYTES, f"{file}: {size} bytes"


if __name__ == "__main__":
    main()
