"""Logs of llama.cpp and vLLM before and after a change, and what `specdec gate` makes of them.

    pip install -r experiments/10-field-audit/requirements.txt
    cargo build --release
    python experiments/16-gate/trials.py --work WORK --out OUT

Every engine has a venv or a build in WORK. OUT/TRIAL-LOG.jsonl.gz has what the gate reads of each
response, OUT/TRIAL-LOG.md what it says of that log next to TRIAL-base. A log that exists is kept.
"""

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / "experiments" / part) for part in ("10-field-audit/engines", "90-engine")
]

PROMPTS, REQUESTS, MAX_TOKENS = ("code", "docs", "edits", "identity"), 240, 64
#: Noise of a worse draft model, as a share of the standard deviation of each of its tensors.
NOISE = 0.15
AT_ONCE = {"llama.cpp": 1, "vllm": 8}
LOGS = ("base", "again", "worse")


def prompts() -> list[dict]:
    found = []
    for name in PROMPTS:
        lines = (ROOT / f"configs/prompts/{name}.jsonl").read_text().splitlines()
        found += [json.loads(line) for line in lines]
    return found[:REQUESTS]


def worse_draft(work: Path) -> Path:
    """A copy of the embedded draft model with noise on its weights."""
    import numpy as np

    folder = work / "worse-draft"
    if folder.exists():
        return folder
    part = Path(shutil.copytree(ROOT / "models/draft", work / "worse-draft.part"))
    file = part / "model.safetensors"
    data = bytearray(file.read_bytes())
    begin = 8 + int.from_bytes(data[:8], "little")
    header, rng = json.loads(data[8:begin]), np.random.default_rng(0)
    for name in sorted(header.keys() - {"__metadata__"}):
        here = slice(*(begin + offset for offset in header[name]["data_offsets"]))
        # A bf16 number is the upper half of the same number in f32.
        halves = np.frombuffer(data[here], np.uint16).astype(np.uint32) << 16
        values = halves.view(np.float32)
        noise = rng.normal(0, NOISE * values.std(), len(values))
        values = values + noise.astype(np.float32)
        data[here] = (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    file.write_bytes(data)
    return part.rename(folder)


def command(trial: str, draft: Path, work: Path) -> tuple[list[str | Path], dict[str, str]]:
    """The server with a draft model, and its environment."""
    import llama_cpp
    import vllm_cpu
    from common import MOST, TARGET
    from ggufs import gguf_file

    if trial == "llama.cpp":
        target, own = (gguf_file(folder, "f32", work) for folder in (TARGET, draft))
        made = [llama_cpp.install("0.3.36", work), "-m", target, "-md", own, "-c", "4096"]
        made += ["-np", "1", "-t", "1", *llama_cpp.F32_CACHE, "-ctkd", "f32", "-ctvd", "f32"]
        return [*made, "--spec-type", "draft-simple", "--spec-draft-n-max", str(MOST)], {}
    how = {"method": "draft_model", "model": str(draft), "num_speculative_tokens": MOST}
    made = [vllm_cpu.install("0.32.0", work), "-m", "vllm.entrypoints.openai.api_server"]
    made += ["--model", TARGET, "--served-model-name", "t", "--dtype", "float32"]
    made += ["--enforce-eager", "--max-model-len", "1024", "--max-num-seqs", str(AT_ONCE[trial])]
    made += ["--per-request-spec-decode-metrics", "detailed"]
    return [*made, "--speculative-config", json.dumps(how)], vllm_cpu.ENVIRONMENT


def record(trial: str, url: str, prompt: dict, seed: int) -> dict:
    """What the gate reads of a response."""
    from server import ask

    line = {"prompt_id": prompt["id"], "category": prompt["category"]}
    if trial == "llama.cpp":
        body = {"prompt": prompt["prompt"], "n_predict": MAX_TOKENS, "seed": seed}
        # Temperature 1 and the whole vocabulary.
        body |= {"temperature": 1.0, "samplers": ["temperature"], "cache_prompt": False}
        timings = ask(f"{url}/completion", body)["timings"]
        kept = ("predicted_n", "draft_n", "draft_n_accepted")
        return line | {"timings": {name: timings[name] for name in kept}}
    # At other temperatures this release divides logits by memory that was never written.
    body = {"model": "t", "prompt": prompt["prompt"], "max_tokens": MAX_TOKENS, "temperature": 0}
    answer = ask(f"{url}/v1/completions", body | {"seed": seed})
    return line | {name: answer[name] for name in ("usage", "metrics")}


def write(trial: str, name: str, out: Path, work: Path) -> None:
    from common import DRAFT
    from server import for_each, serving

    file = out / f"{trial}-{name}.jsonl.gz"
    if file.exists():
        return
    found, asked, seed = {}, prompts(), 1000 * (1 + LOGS.index(name))

    def one(number: int) -> None:
        found[number] = record(trial, url, asked[number], seed + number)

    draft = worse_draft(work) if name == "worse" else DRAFT
    words, more = command(trial, draft, work)
    with serving(words, work / f"{trial}-{name}.log", more) as url:
        for_each(range(len(asked)), one, AT_ONCE[trial])
    lines = "".join(json.dumps(found[number]) + "\n" for number in range(len(asked)))
    # Without a time, equal logs are equal files.
    file.write_bytes(gzip.compress(lines.encode(), mtime=0))


def judge(trial: str, name: str, out: Path) -> str:
    """What the gate says of a log next to the base."""
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / f"{own}.jsonl" for own in ("base", name)]
        for log in logs:
            log.write_bytes(gzip.decompress((out / f"{trial}-{log.stem}.jsonl.gz").read_bytes()))
        asked = [ROOT / "target/release/specdec", "gate", *logs]
        said = subprocess.run(asked, capture_output=True, text=True).stdout
    (out / f"{trial}-{name}.md").write_text(said)
    return said.splitlines()[0]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--work", type=Path, required=True, help="folder of engines and models")
    options.add_argument("--out", type=Path, required=True, help="folder of the logs")
    options.add_argument("--trials", nargs="+", choices=AT_ONCE, default=list(AT_ONCE))
    args = options.parse_args()
    for folder in (args.work, args.out):
        folder.mkdir(parents=True, exist_ok=True)
    for trial in args.trials:
        for name in LOGS:
            write(trial, name, args.out, args.work.resolve())
            if name != "base":
                print(f"{trial} {name}: {judge(trial, name, args.out)}", flush=True)


if __name__ == "__main__":
    main()
