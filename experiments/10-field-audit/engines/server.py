"""A server on this machine, and requests to it."""

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import Failed, Job, free_port, process, tail

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


def for_each(jobs: list[Job], write: Callable[[Job], None], at_once: int) -> None:
    """Writes the texts, `at_once` at a time; the first failure ends it."""
    with ThreadPoolExecutor(at_once) as pool:
        try:
            list(pool.map(write, jobs))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
