"""Asks a running server for texts and writes requests and responses as JSON lines."""

import argparse
import json
import urllib.request
from pathlib import Path

PROMPTS = Path(__file__).parents[2] / "configs/prompts"


def request(args: argparse.Namespace, prompt: str, seed: int) -> tuple[str, dict]:
    """The path and the body of a request."""
    common = {"prompt": prompt, "temperature": args.temperature, "top_p": 1.0, "seed": seed}
    if args.api == "vllm":
        own = {"model": args.model, "max_tokens": args.max_tokens, "return_token_ids": True}
        logs = {} if args.rounds else {"logprobs": 0}
        return "/v1/completions", common | own | logs
    own = {"n_predict": args.max_tokens, "return_tokens": True, "cache_prompt": False}
    logs = {} if args.rounds else {"n_probs": 1}
    return "/completion", common | own | logs | {"samplers": ["temperature"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--api", choices=["vllm", "llama_cpp"], required=True)
    parser.add_argument("--model", default="t", help="its name, for vLLM")
    parser.add_argument("--prompts", default="code,docs,edits")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", action="store_true", help="the server speculates")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    with args.out.open("w", encoding="utf-8") as out:
        for name in args.prompts.split(","):
            for line in (PROMPTS / f"{name}.jsonl").read_text().splitlines():
                for repeat in range(args.repeats):
                    seed = args.seed + repeat
                    path, body = request(args, json.loads(line)["prompt"], seed)
                    head = {"Content-Type": "application/json"}
                    data = json.dumps(body).encode()
                    sent = urllib.request.Request(args.url + path, data, head)
                    with urllib.request.urlopen(sent) as response:
                        answer = json.load(response)
                    print(json.dumps({"request": body, "response": answer}), file=out)


if __name__ == "__main__":
    main()
