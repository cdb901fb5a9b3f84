"""Holds tapes of the texts of other engines against what these engines logged.

`python engines.py LOGS OUT.csv`: LOGS has the files of `engine_logs.py`, named ENGINE-plain.jsonl
(temperature 1) and ENGINE-rounds-T.jsonl (with a draft of up to four tokens, at temperature T).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import csv
import gzip
import json
import statistics
import subprocess
import tempfile

ROOT = Path(__file__).parents[2]
SPECDEC = ROOT / "target/release/specdec"
TARGET, DRAFT = (ROOT / "models" / name for name in ("target", "draft"))
FORMATS = {"vllm": "vllm", "llama.cpp": "llama_cpp"}
MOST = 4


def tape(log: Path, engine: str, temperature: str, score: bool) -> list[tuple[dict, dict]]:
    """The texts of a log with our own log p, each with what the greedy draft says of it."""
    with tempfile.TemporaryDirectory() as folder:
        plain, out = Path(folder) / "log.jsonl", Path(folder) / "t.jsonl"
        plain.write_bytes(gzip.decompress(log.read_bytes()))
        command = [SPECDEC, "tape", "import", plain, "--format", FORMATS[engine], "--out", out]
        command += ["--target", TARGET, "--dtype", "f32", "--temperature", temperature]
        subprocess.run(command, check=True, capture_output=True)
        if score:
            command = [SPECDEC, "tape", "score", out, "--draft", DRAFT, "--draft-dtype", "f32"]
            command += ["--draft-temperature", "0"]
            subprocess.run(command, check=True, capture_output=True)
        lines = [json.loads(line) for line in out.read_text().splitlines()]
    scores = {line["score"]["text"]: line["score"] for line in lines if "score" in line}
    texts = [line["text"] for line in lines if "text" in line]
    return [(text, scores.get(number, {})) for number, text in enumerate(texts)]


def logged_log_probs(engine: str, response: dict) -> dict[int, float]:
    """The logged log-probabilities by token; llama.cpp skips parts of characters."""
    if engine == "vllm":
        return dict(enumerate(response["choices"][0]["logprobs"]["token_logprobs"]))
    found, at = {}, 0
    for entry in response["completion_probabilities"]:
        while response["tokens"][at] != entry["id"]:
            at += 1
        found[at] = entry["logprob"]
        at += 1
    return found


def logged_rounds(engine: str, response: dict) -> int:
    """Rounds; the first token comes from the prompt's pass."""
    if engine == "vllm":
        return response["metrics"]["speculative_decoding"]["num_spec_steps"]
    return response["tokens_predicted"] - 1 - response["timings"].get("draft_n_accepted", 0)


def forecast(text: dict, score: dict) -> int:
    """The rounds of a greedy draft from the second token on."""
    rounds, at = 0, 1
    while at < len(text["tokens"]):
        follows = [log is not None and log > -1e-9 for log in score["log_q"][at : at + MOST]]
        at += (follows + [False]).index(False) + 1
        rounds += 1
    return rounds


def row(log: Path) -> dict:
    engine, kind, *rest = log.name.removesuffix(".jsonl.gz").split("-")
    temperature = rest[0] if rest else "1"
    texts = tape(log, engine, temperature, kind == "rounds")
    responses = [json.loads(line)["response"] for line in gzip.open(log, "rt")]
    log_p = [p for text, _ in texts for p in text["log_p"]]
    found = {
        "engine": engine,
        "log": kind,
        "temperature": temperature,
        "texts": len(texts),
        "tokens": len(log_p),
        "impossible": log_p.count(None),
        "mean_log_p": statistics.fmean(p for p in log_p if p is not None),
    }
    if kind == "plain":
        pairs = [
            abs(logged - text["log_p"][at])
            for (text, _), response in zip(texts, responses, strict=True)
            for at, logged in logged_log_probs(engine, response).items()
        ]
        found |= {"log_p_median": statistics.median(pairs), "log_p_worst": max(pairs)}
        return found
    logged = [logged_rounds(engine, response) for response in responses]
    own = [forecast(text, score) for text, score in texts]
    same = sum(a == b for a, b in zip(logged, own, strict=True))
    return found | {"rounds": sum(logged), "forecast": sum(own), "same": same}


def main() -> None:
    rows = [row(log) for log in sorted(Path(sys.argv[1]).glob("*.jsonl.gz"))]
    keys = list(dict.fromkeys(key for one in rows for key in one))
    with Path(sys.argv[2]).open("w", newline="") as out:
        writer = csv.DictWriter(out, keys, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
