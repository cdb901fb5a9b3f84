"""The arms: engines, versions and settings, all pinned."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "engines"))

from common import Arm, Sampling  # noqa: E402

COLD = Sampling(temperature=0.7, top_p=0.9)
# What generate(do_sample=True) does where neither caller nor model name a top-k.
TOP_50 = Sampling(top_k=50)
HF, HF_OLD, HF_GREEDY = "5.24.0", "4.57.6", "4.44.2"
LLAMA, VLLM, OPENVINO = "0.3.36", "0.32.0", "2026.4.1.0"

# Verifiers of this project, and mistakes on purpose, each on the settings that show it.
VERIFIERS = ["rejection", "traversal", "token_match", "gumbel", "k_seq", "spechub", "greedy_multi"]
# Approximate ones, which an audit should refute.
LOSSY = ["typical", "lenient"]
MUTANTS = [
    "correction_from_p",
    "bonus_from_last_q",
    "accept_ratio_inverted",
    "accept_2_per_cent_more",
    "correction_is_argmax",
    "greedy_draft_soft_q",
    "residual_reuses_noise",
    "draft_row_early",
    "residual_reuses_uniform",
]
MUTANTS_COLD = ["target_temperature_ignored", "raw_q_drawn"]


def own(name: str, speculation: str, sampling: Sampling = Sampling()) -> Arm:
    return Arm(f"own-{name}", "specdec_serve", "this", speculation, sampling)


OWN = [
    own("plain", "none"),
    own("plain-cold", "none", COLD),
    *(own(name, f"verifier:{name}") for name in VERIFIERS + LOSSY),
    own("rejection-cold", "verifier:rejection", COLD),
    *(own(f"wrong-{name}", f"mutant:{name}") for name in MUTANTS),
    *(own(f"wrong-{name}", f"mutant:{name}", COLD) for name in MUTANTS_COLD),
]

ARMS = [
    *OWN,
    Arm("llama-plain", "llama_cpp", LLAMA, "none"),
    Arm("llama-draft", "llama_cpp", LLAMA, "draft"),
    Arm("llama-lookup", "llama_cpp", LLAMA, "lookup"),
    Arm("llama-plain-cold", "llama_cpp", LLAMA, "none", COLD),
    Arm("llama-draft-cold", "llama_cpp", LLAMA, "draft", COLD),
    Arm("hf-plain", "hf_transformers", HF, "none"),
    Arm("hf-draft", "hf_transformers", HF, "draft"),
    Arm("hf-lookup", "hf_transformers", HF, "lookup"),
    Arm("hf-draft-defaults", "hf_transformers", HF, "draft", TOP_50, defaults=True),
    Arm("hf-plain-cold", "hf_transformers", HF, "none", COLD),
    Arm("hf-draft-cold", "hf_transformers", HF, "draft", COLD),
    Arm("hf-4.57-draft", "hf_transformers", HF_OLD, "draft"),
    Arm("hf-4.57-draft-defaults", "hf_transformers", HF_OLD, "draft", TOP_50, defaults=True),
    Arm("hf-4.57-draft-cold", "hf_transformers", HF_OLD, "draft", COLD),
    Arm("hf-4.44-plain", "hf_transformers", HF_GREEDY, "none"),
    Arm("hf-4.44-draft", "hf_transformers", HF_GREEDY, "draft"),
    Arm("hf-4.44-draft-defaults", "hf_transformers", HF_GREEDY, "draft", TOP_50, defaults=True),
    Arm("hf-4.44-draft-cold", "hf_transformers", HF_GREEDY, "draft", COLD),
    Arm("vllm-plain", "vllm_cpu", VLLM, "none"),
    Arm("vllm-draft", "vllm_cpu", VLLM, "draft"),
    Arm("vllm-lookup", "vllm_cpu", VLLM, "lookup"),
    Arm("openvino-plain", "ov_genai", OPENVINO, "none"),
    Arm("openvino-draft", "ov_genai", OPENVINO, "draft"),
    Arm("openvino-lookup", "ov_genai", OPENVINO, "lookup"),
]
