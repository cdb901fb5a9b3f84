"""llama.cpp: `llama-server` from the sources that llama-cpp-python carries."""

import sys
import tarfile
from pathlib import Path

from common import DRAFT, MOST, ROOT, TARGET, THREADS, Arm, Failed, Job, Texts, call
from server import ask, for_each, serving

sys.path.insert(0, str(ROOT / "experiments/90-engine"))

F32_CACHE = ["-ctk", "f32", "-ctv", "f32", "-fa", "off"]
# An n-gram of three tokens, the smallest that the server's texts repeat often enough.
LOOKUP = ["--spec-type", "ngram-simple"]
LOOKUP += ["--spec-ngram-simple-size-n", "3", "--spec-ngram-simple-size-m", str(MOST)]


def install(version: str, work: Path) -> Path:
    """The server; cmake and ninja come from this venv."""
    folder = work / f"llama_cpp_python-{version}"
    sources = folder / "vendor/llama.cpp"
    server = sources / "build/bin/llama-server"
    if server.exists():
        return server
    packed = work / f"{folder.name}.tar.gz"
    if not packed.exists():
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
        pip += ["--no-binary", "llama-cpp-python", f"llama-cpp-python=={version}", "-d", work]
        call(pip)
    with tarfile.open(packed) as archive:
        archive.extractall(work, filter="data")
    bin_folder = Path(sys.executable).parent
    off = [f"-DLLAMA_{part}=OFF" for part in ("BUILD_TESTS", "BUILD_EXAMPLES", "CURL", "BUILD_UI")]
    configure = [bin_folder / "cmake", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
    call([*configure, f"-DCMAKE_MAKE_PROGRAM={bin_folder / 'ninja'}", *off], sources)
    call([bin_folder / "ninja", "-C", "build", "-j", str(THREADS), "llama-server"], sources)
    return server


def write(arm: Arm, jobs: list[Job], out: Path, work: Path) -> None:
    from ggufs import gguf_file  # needs the package gguf

    server = install(arm.version, work)
    command = [str(server), "-m", str(gguf_file(TARGET, "f32", work)), "-c", "4096", "-np", "1"]
    command += ["-t", str(THREADS), *F32_CACHE]
    if arm.speculation == "draft":
        command += ["--spec-type", "draft-simple", "--spec-draft-n-max", str(MOST)]
        command += ["-md", str(gguf_file(DRAFT, "f32", work)), "-ctkd", "f32", "-ctvd", "f32"]
    elif arm.speculation == "lookup":
        command += LOOKUP
    texts = Texts(out, arm.sampling)
    with serving(command, work / f"{arm.name}.log") as url:
        for_each(texts.missing(jobs), lambda job: _write(url, arm, job, texts), 1)


def _write(url: str, arm: Arm, job: Job, texts: Texts) -> None:
    sampling = arm.sampling
    body = {
        "prompt": job.prompt_ids,
        "n_predict": job.max_tokens,
        "seed": job.seed,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        # In the order of the audit: the temperature first.
        "samplers": ["temperature", "top_k", "top_p", "min_p"],
        "return_tokens": True,
        "cache_prompt": False,
    }
    answer = ask(f"{url}/completion", body)
    if answer["tokens_evaluated"] != len(job.prompt_ids):
        raise Failed(f"the server read {answer['tokens_evaluated']} tokens of {job.prompt}")
    output_ids = answer["tokens"]
    accepted = answer["timings"].get("draft_n_accepted", 0)
    texts.add(job, output_ids, passes=len(output_ids) - accepted)
