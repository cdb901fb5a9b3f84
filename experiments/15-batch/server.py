"""Starts `specdec serve` for the scripts of this experiment."""

import json
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    url: str
    model: str
    process: int


@contextmanager
def serving(specdec: Path, options: list[str]) -> Iterator[Server]:
    """A server on a free port, until it is no longer needed."""
    command = [specdec, "serve", "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        for line in server.stderr:
            if found := re.search(r" is served at (\S+)", line):
                break
        else:
            sys.exit("the server has ended")
        # What it says later is dropped.
        threading.Thread(target=server.stderr.read, daemon=True).start()
        with urllib.request.urlopen(f"{found.group(1)}/v1/models") as answer:
            model = json.load(answer)["data"][0]["id"]
        yield Server(found.group(1), model, server.pid)
        server.terminate()
