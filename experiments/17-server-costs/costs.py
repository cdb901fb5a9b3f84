"""Are the costs that `specdec bench --url` fits from outside those of the rounds inside the server?

    python experiments/17-server-costs/costs.py OUT

`specdec serve` counts the time of its rounds by the number of requests that share them. The script
serves the embedded pair plainly and with K = 2 and 4, times it from outside, reads the counters
before and after, and writes inside.csv (a row per setting, with both), served.csv (what was fitted)
and costs.csv. Settings with K = 2, with 3 or 6 requests, or with prompts of 128 tokens are held out
of the fit.
"""

import argparse
import csv
import itertools
import json
import re
import statistics
import subprocess
import sys
import urllib.request
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "target/release/specdec"
FITTED = {"k": [0, 4], "batch": [1, 2, 4, 8], "prompt": [64, 192]}
HELD_OUT = {"k": [0, 2, 4], "batch": [3, 6], "prompt": [128]}
# The server has a core of its own, so that its client does not slow it down.
THREADS = "1"


def serve(k):
    method = ["--plain"] if k == 0 else ["-k", str(k)]
    command = [PROGRAM, "serve", "--port", "0", "--threads", THREADS, "--slots", "16", *method]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if found := re.search(r"is served at (http://\S+)", line):
            return server, found[1]
    sys.exit("the server did not start")


def meters(url):
    with urllib.request.urlopen(f"{url}/metrics") as response:
        text = response.read().decode()
    found = {}
    for name, requests, value in re.findall(r'specdec_(rounds|round_seconds)_total\{requests="(\d+)"\} (\S+)', text):
        found[name, int(requests)] = float(value)
    return found


def bench(*options):
    command = [PROGRAM, "bench", *map(str, options), "--json"]
    # A server alone gives no costs, which the program says after its samples.
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if not done.stdout:
        sys.exit("no result")
    return json.loads(done.stdout), done.returncode


def measured(out, settings, name):
    """Times each setting from outside and inside; the samples are appended to a file."""
    rows = []
    for k in settings["k"]:
        server, url = serve(k)
        try:
            for prompt, batch in itertools.product(settings["prompt"], settings["batch"]):
                file = out / "one.csv"
                before = meters(url)
                options = ["--url", url, "--csv", file, "-n", 96, "--seconds", 4]
                report, _ = bench(*options, "--concurrency", batch, "--prompt-tokens", prompt)
                after = meters(url)
                spent, count = (
                    after[part, batch] - before.get((part, batch), 0.0) for part in ("round_seconds", "rounds")
                )
                own = report["settings"][0]
                rows.append(own | {"k": k, "inside_ms": 1e3 * spent / count})
                keep(file, out / name, k)
        finally:
            server.terminate()
            server.wait()
    return rows


def keep(file, to, k):
    with open(file) as read:
        lines = list(csv.DictReader(read))
    new = not to.exists()
    with open(to, "a", newline="") as write:
        writer = csv.DictWriter(write, lines[0].keys(), lineterminator="\n")
        if new:
            writer.writeheader()
        # The port of a server is another one each time.
        writer.writerows(line | {"server": f"K = {k}", "k": k} for line in lines)
    file.unlink()


def between(known, at):
    """The value at `at` on the line through the nearest known places."""
    below = max((x for x in known if x <= at), default=min(known))
    above = min((x for x in known if x >= at), default=max(known))
    share = (at - below) / (above - below) if above > below else 0.0
    return known[below] + share * (known[above] - known[below])


def predicted(costs, own):
    """The time of a round by the cost file, as forecasts compute it."""

    def part(what, rows):
        batches = {}
        for row in costs:
            if row["what"] == what:
                contexts = batches.setdefault(int(row["batch"]), {})
                contexts.setdefault(int(row["context"]), {})[int(row["rows"])] = float(row["ms"])
        at = lambda contexts: between({c: between(r, rows) for c, r in contexts.items()}, own["context"])
        return between({batch: at(contexts) for batch, contexts in batches.items()}, own["batch"])

    drafted = own["drafted"]
    return part("target", 1 + drafted) + (drafted * part("draft", 1) if drafted else 0.0)


def main(out):
    out.mkdir(parents=True)
    fitted = measured(out, FITTED, "served.csv")
    held_out = measured(out, HELD_OUT, "held-out.csv")
    report, code = bench("--from", out / "served.csv", "--costs", out / "costs.csv")
    if code:
        sys.exit("the machine is busy")
    intervals = {(row["k"], row["batch"], row["prompt"]): row for row in report["settings"]}
    with open(out / "costs.csv") as read:
        costs = list(csv.DictReader(read))
    columns = ["held_out", "k", "batch", "prompt", "context", "drafted", "inside_ms", "outside_ms"]
    columns += ["fitted_ms", "fitted_ms_lo", "fitted_ms_hi", "error"]
    with open(out / "inside.csv", "w", newline="") as write:
        writer = csv.DictWriter(write, columns, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        errors = {False: [], True: []}
        covered = []
        for is_held_out, own in [(False, row) for row in fitted] + [(True, row) for row in held_out]:
            ms = predicted(costs, own)
            error = ms / own["inside_ms"] - 1
            errors[is_held_out].append(abs(error))
            row = own | {"held_out": int(is_held_out), "outside_ms": own["round_ms"], "fitted_ms": ms, "error": error}
            if is_held_out:
                row |= {"fitted_ms_lo": None, "fitted_ms_hi": None}
            else:
                fit = intervals[own["k"], own["batch"], own["prompt"]]
                row |= {key: fit[key] for key in ("fitted_ms_lo", "fitted_ms_hi")}
                covered.append(fit["fitted_ms_lo"] <= own["inside_ms"] <= fit["fitted_ms_hi"])
            writer.writerow(row)
    for is_held_out, own in errors.items():
        name = "held out" if is_held_out else "fitted"
        print(f"{name}: median error {100 * statistics.median(own):.1f} %, at most {100 * max(own):.1f} %")
    print(f"intervals with the time inside: {sum(covered)} of {len(covered)}")
    print("not separated:", ", ".join(report["unknown"]) or "nothing")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="a new folder")
    main(parser.parse_args().out)
