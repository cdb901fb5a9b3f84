"""A server on this machine, and requests to it."""

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import Arm, Failed, Job, free_port, process, tail

# Seconds that a server has to load its models, and to answer.
PATIENCE = 1800


@contextlib.contextmanager
def serving(command: list[str], log: Path, more: dict[str, str] | None = None) -> Iterator[str]:
    """The address of a server that is ready; `--port` is added to the command."""
    port = free_port()
    with process([*command, "--port", str(port)], log, more) as running:
        url, until = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE
        while not _ready(url):
            if running.poll() is not None:
                raise Failed(tail(log))
            if time.monotonic() > until:
                raise Failed(f"not ready after {PATIENCE} s: {tail(log)}")
            time.sleep(0.5)
        yield url


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url + "/health", timeout=5):
            return True
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def ask(url: str, body: dict) -> dict:
    data = json.dumps(body).encode()
    sent = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(sent, timeout=PATIENCE) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise Failed(f"{error.code}: {error.read().decode(errors='replace')[:300]}") from error


def complete(url: str, arm: Arm, job: Job, more: dict) -> tuple[list[int], dict | None]:
    """The tokens that /v1/completions gives, and what speculation did, as vLLM reports it."""
    body = more | {
        "prompt": job.prompt_ids,
        "max_tokens": job.max_tokens,
        "seed": job.seed,
        "temperature": arm.sampling.temperature,
        "top_k": arm.sampling.top_k,
        "top_p": arm.sampling.top_p,
        "min_p": arm.sampling.min_p,
        "return_token_ids": True,
    }
    answer = ask(f"{url}/v1/completions", body)
    choice = answer["choices"][0]
    assert choice["prompt_token_ids"] == job.prompt_ids
    return choice["token_ids"], (answer.get("metrics") or {}).get("speculative_decoding")


def for_each(jobs: list[Job], write: Callable[[Job], None], at_once: int) -> None:
    """Writes the texts, `at_once` at a time; the first failure ends it."""
    with ThreadPoolExecutor(at_once) as pool:
        try:
            list(pool.map(write, jobs))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
