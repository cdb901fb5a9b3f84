"""OpenVINO GenAI on token ids; optimum-intel converts the models to f32 IR."""

import sys
from pathlib import Path

from common import DRAFT, MOST, TARGET, THREADS, Arm, Job, call, read_request, run_in_venv, venv

# The pair's <|eos|>, which the IR folder's configuration does not bring along.
END = 1
OPTIMUM = "optimum-intel[openvino]==2.2.0"


def install(version: str, work: Path) -> Path:
    return venv(work, f"openvino-{version}", [[f"openvino-genai=={version}", OPTIMUM]])


def converted(folder: Path, python: Path, work: Path) -> Path:
    """The folder of a model and its tokenizer as OpenVINO's IR, in f32."""
    done = work / "openvino" / folder.name
    if not (done / "openvino_detokenizer.xml").exists():
        export = [python, python.parent / "optimum-cli", "export", "openvino", "-m", folder]
        call([*export, "--weight-format", "fp32", "--task", "text-generation-with-past", done])
    return done


def write(arm: Arm, jobs: list[Job], out: Path, work: Path) -> None:
    python = install(arm.version, work)
    for folder in (TARGET, DRAFT):
        converted(folder, python, work)
    run_in_venv(python, __file__, arm, jobs, out, work)


def main() -> None:
    """Writes the texts of a request, inside the venv."""
    import numpy as np
    import openvino
    import openvino_genai as genai

    arm, jobs, texts, work = read_request(sys.argv[1])
    f32 = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    f32 |= {"INFERENCE_NUM_THREADS": THREADS, "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
    more = {}
    if arm.speculation == "draft":
        more["draft_model"] = genai.draft_model(work / "openvino" / DRAFT.name, "CPU", **f32)
        # This one caches no prefixes; with the default, sampling ends with a failed check.
        more["scheduler_config"] = genai.SchedulerConfig()
    elif arm.speculation == "lookup":
        more["prompt_lookup"] = True
    pipe = genai.LLMPipeline(work / "openvino" / TARGET.name, "CPU", **f32, **more)
    config = pipe.get_generation_config()
    config.do_sample = True
    config.set_eos_token_id(END)
    config.temperature, config.top_p = arm.sampling.temperature, arm.sampling.top_p
    if arm.sampling.top_k:
        config.top_k = arm.sampling.top_k
    if arm.speculation != "none":
        config.num_assistant_tokens = MOST
    if arm.speculation == "lookup":
        config.max_ngram_size = 3
    for job in jobs:
        config.rng_seed, config.max_new_tokens = job.seed, job.max_tokens
        ids = np.array([job.prompt_ids])
        inputs = genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))
        done = pipe.generate(inputs, config)
        texts.add(job, list(done.tokens[0]))


if __name__ == "__main__":
    main()
