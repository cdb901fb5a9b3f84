"""What `specdec audit` says of a server whose head has a fault, given the right head.

    cargo build --release
    python experiments/18-head-faults/audits.py --head NAME=FOLDER… --work WORK --out OUT

The server is `specdec serve`. Writes OUT/audits.csv. Completions that exist in WORK are kept.
"""

import csv
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from run import SPECDEC, arguments, catalog, faults

PORT, K, TOKENS, MAX_TOKENS = 8718, 4, 12_000, 64
PLACES = ("first", "later", "early", "late")


def serve(name: str, work: Path) -> subprocess.Popen | None:
    """Start a server; `None` if the fault changes nothing in the head."""
    command = [SPECDEC, "serve", "--target", "target", "--draft", name]
    command += ["-k", str(K), "--port", str(PORT)]
    with (work / "serve.log").open("w") as log:
        server = subprocess.Popen(command, cwd=work, stdout=log, stderr=log)
    while server.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health").close()
            return server
        except OSError:
            time.sleep(0.2)
    said = (work / "serve.log").read_text()
    if "it would change nothing" in said or "has no such state" in said:
        return None
    sys.exit(said)


def audit(name: str, right: Path, work: Path) -> dict | None:
    """The verdict on the rounds of a server."""
    server = serve(name, work)
    if server is None:
        return None
    try:
        command = [SPECDEC, "audit", work / f"{name}.jsonl", "--target", "target"]
        command += ["--draft", right.resolve(), "-k", str(K), "--json"]
        command += ["--url", f"http://127.0.0.1:{PORT}", "--api", "vllm"]
        command += ["--tokens", str(TOKENS), "--max-tokens", str(MAX_TOKENS)]
        done = subprocess.run(command, cwd=work, check=True, capture_output=True, text=True)
        return json.loads(done.stdout)["verdicts"][0]
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    heads, work, out = arguments(__doc__)
    catalog(heads, work)
    with (out / "audits.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        columns = [column for place in PLACES for column in (place, f"{place}_error")]
        header = ["head", "fault", "refuted", "rounds", "log10_e", "log10_e_fewer", "place"]
        writer.writerow([*header, *columns])
        for head, folder in heads.items():
            for fault in faults():
                found = audit(f"{head}-{fault}", folder, work)
                if found is None:
                    continue
                rounds = found["rounds"]
                row = [head, fault, found["refuted"], rounds["rounds"]]
                row += [round(rounds["log10_e"], 2), round(rounds["log10_e_fewer"], 2)]
                row.append(rounds["place"] or "-")
                for place in PLACES:
                    change = rounds["changes"][place]
                    row += [round(change["change"], 4), round(change["error"], 4)]
                print(*row, flush=True)
                writer.writerow(row)


if __name__ == "__main__":
    main()
