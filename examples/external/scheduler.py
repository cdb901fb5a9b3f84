"""Stops before the first token that is expected to be rejected, for `specdec certify --scheduler`."""
import json
import sys


def lengths(drafts, threshold=0.75):
    for draft in drafts:
        low = [i for i, token in enumerate(draft) if token["estimate"] < threshold]
        yield low[0] if low else len(draft)


while line := sys.stdin.readline():
    print(json.dumps({"lengths": list(lengths(json.loads(line)["schedule"][-1]))}), flush=True)
