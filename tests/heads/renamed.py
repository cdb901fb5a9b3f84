"""Write `eagle1_speculators`: the weights and logits of `eagle1` under the names of speculators.

docs/adding-a-head.md adds the format of this folder, as an example.
"""

import json
import shutil
import struct
from pathlib import Path

HERE = Path(__file__).parent
SOURCE, TARGET = HERE / "eagle1", HERE / "eagle1_speculators"


def renamed(name: str) -> str:
    """Return the name of a tensor in the layout of speculators."""
    return name.replace("layers.0.", "transformer.").replace("fc.", "fusion_fc.")


def main() -> None:
    """Write the folder."""
    TARGET.mkdir(exist_ok=True)
    shutil.copyfile(SOURCE / "expected.json", TARGET / "expected.json")
    layer = json.loads((SOURCE / "config.json").read_text())
    config = {
        "architectures": ["EagleSpeculator"],
        "speculators_model_type": "eagle",
        "layernorms": False,
        "fusion_bias": True,
        "transformer_layer_config": layer,
    }
    (TARGET / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    data = (SOURCE / "model.safetensors").read_bytes()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    header = {renamed(name): found for name, found in json.loads(data[8:end]).items()}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    content = struct.pack("<Q", len(text)) + text + data[end:]
    (TARGET / "model.safetensors").write_bytes(content)


if __name__ == "__main__":
    main()
