"""Rejection sampling (Leviathan et al. 2023, arXiv 2211.17192) for `specdec certify --external`."""
import json
import sys


def ask(**question):
    print(json.dumps(question), flush=True)
    return json.loads(sys.stdin.readline())


def choose(weights):
    return ask(choose=weights)["chosen"]


def verify(p, q, draft):
    for i, token in enumerate(draft):
        accept = min(1.0, p[i][token] / q[i][token])
        if choose([accept, 1.0 - accept]) == 1:
            return draft[:i] + [choose([max(a - b, 0.0) for a, b in zip(p[i], q[i])])]
    return draft + [choose(p[-1])]


while line := sys.stdin.readline():
    print(json.dumps({"tokens": verify(**json.loads(line)["verify"])}), flush=True)
