"""Prepares the smaller grid, whose target is SmolLM2-135M.

    pip install -r experiments/20-equal-budget/requirements.txt
    python experiments/20-equal-budget/smollm2.py --gguf FILE --shards SHARDS --work WORK

FILE is SmolLM2-135M-Instruct as a GGUF file of any type. SHARDS is the folder of shards that the
embedded pair was trained on; its texts are tokenised anew. WORK gets pair/target (the weights of
the file in bf16), pair/draft (the start of all drafters: the embedding's first 192 principal
components, which stand in for an embedding of that width), and shards. Then, in models/training:

    python -m heads.generate --work WORK --target WORK/pair/target --tokens 65e3
    python -m protocol run ../../experiments/20-equal-budget/smollm2.toml --work WORK --pair WORK/pair
"""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import numpy as np  # noqa: E402
import torch  # noqa: E402
from gguf import GGUFReader, dequantize  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models/training"))

LENGTHS = {"train-code": 800_000, "train-prose": 300_000, "valid-code": 100_000}
LENGTHS |= {"valid-prose": 40_000, "test-code": 100_000, "test-prose": 40_000}
BOS, EOS = 0, 1  # of the embedded vocabulary
WIDTH = 192
START_RMS = 0.3  # of the draft's embedding: its first distributions are near uniform
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP = {"token_embd": "embed_tokens", "output_norm": "norm"}


def shape(field) -> dict:
    """The target's shape, by the names of the recipe."""
    heads, width = field("llama.attention.head_count"), field("llama.embedding_length")
    return {
        "hidden_size": width,
        "intermediate_size": field("llama.feed_forward_length"),
        "num_hidden_layers": field("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": field("llama.attention.head_count_kv"),
        "head_dim": width // heads,
        "vocab_size": field("llama.vocab_size"),
        "max_position_embeddings": 2048,
        "rope_theta": field("llama.rope.freq_base"),
        "rms_norm_eps": round(field("llama.attention.layer_norm_rms_epsilon"), 9),
    }


def weights(reader: GGUFReader, config: dict) -> dict[str, torch.Tensor]:
    """The tensors under the names of transformers; queries and keys back in its rotary order."""
    found = {}
    counts = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for tensor in reader.tensors:
        name = tensor.name.removesuffix(".weight")
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if name.startswith("blk."):
            _, number, part = name.split(".")
            if part in counts:
                pairs = values.reshape(counts[part], -1, 2, values.shape[1])
                values = pairs.swapaxes(1, 2).reshape(values.shape)
            name = f"layers.{number}.{LAYER[part]}"
        else:
            name = TOP[name]
        found[f"model.{name}.weight"] = torch.from_numpy(values.copy()).bfloat16()
    return found


def read_tokenizer(field) -> Tokenizer:
    """The tokenizer of the file: single digits, then byte-level BPE."""
    tokens, merges = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.merges")
    vocabulary = {token: number for number, token in enumerate(tokens)}
    made = Tokenizer(models.BPE(vocabulary, [tuple(merge.split(" ")) for merge in merges]))
    digits = pre_tokenizers.Digits(individual_digits=True)
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([digits, bytes_])
    made.decoder = decoders.ByteLevel()
    kinds = field("tokenizer.ggml.token_type")
    made.add_special_tokens([t for t, kind in zip(tokens, kinds) if kind == 3])
    return made


def translate(shard: Path, old: Tokenizer, new: Tokenizer, end: int, length: int) -> np.ndarray:
    """The shard's texts in the new vocabulary, each with the end token behind it."""
    tokens = np.fromfile(shard, dtype=np.uint16)
    found: list[int] = []
    for text in np.split(tokens, np.flatnonzero(tokens == BOS)):
        found += [*new.encode(old.decode(text[text > EOS].tolist())).ids, end]
        if len(found) >= length:
            break
    return np.array(found[:length], dtype=np.uint16)


def write_model(folder: Path, config: dict, tensors: dict, tokenizer: Tokenizer) -> None:
    """Write a model's folder."""
    from export import configs
    from model import LlamaConfig

    folder.mkdir(parents=True, exist_ok=True)
    for name, content in configs(LlamaConfig(**config), 1, 2).items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save(str(folder / "tokenizer.json"))


def narrow(config: dict, target: dict[str, torch.Tensor]) -> tuple[dict, dict]:
    """Shape and tensors of the draft model that lends its embedding to all drafters."""
    from model import Llama, LlamaConfig

    wide = target["model.embed_tokens.weight"].float()
    _, _, directions = torch.linalg.svd(wide.T @ wide)
    embedding = wide @ directions[:WIDTH].T
    embedding *= START_RMS / embedding.square().mean().sqrt()
    small = {"hidden_size": WIDTH, "intermediate_size": 3 * WIDTH, "num_hidden_layers": 3}
    small |= {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 32}
    torch.manual_seed(0)
    model = Llama(LlamaConfig(**config | small)).state_dict()
    model["model.embed_tokens.weight"] = embedding
    return config | small, {name: tensor.bfloat16() for name, tensor in model.items()}


@torch.no_grad()
def check(folder: Path, shard: np.ndarray) -> None:
    """Stop if the target predicts prose badly, as it would with a wrong layout."""
    from evaluate import load_folder

    ids = torch.from_numpy(shard[:1024].astype(np.int64)).view(4, 256)
    loss = torch.nn.functional.cross_entropy(
        load_folder(folder)(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten()
    )
    print(f"the target's loss on prose: {loss:.2f} nats per token")
    if loss > 4.5:
        sys.exit("the target was not read rightly")


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--shards", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    reader = GGUFReader(args.gguf)
    field = lambda name: reader.fields[name].contents()  # noqa: E731
    config, tokenizer = shape(field), read_tokenizer(field)
    target = weights(reader, config)
    write_model(args.work / "pair/target", config, target, tokenizer)
    write_model(args.work / "pair/draft", *narrow(config, target), tokenizer)
    old = Tokenizer.from_file(str(ROOT / "models/target/tokenizer.json"))
    (args.work / "shards").mkdir(exist_ok=True)
    for name, length in LENGTHS.items():
        shard = translate(args.shards / f"{name}.bin", old, tokenizer, 0, length)
        shard.tofile(args.work / f"shards/{name}.bin")
        print(f"{name}: {len(shard)} tokens", flush=True)
    check(args.work / "pair/target", shard)


if __name__ == "__main__":
    main()
