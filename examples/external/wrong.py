"""Known-wrong, from uniform numbers: the correction is drawn from p and not from (p - q)+."""
import json
import sys


def uniform():
    print(json.dumps({"uniform": 1}), flush=True)
    return json.loads(sys.stdin.readline())["uniform"][0]


def draw(row):
    u = uniform()
    for token, probability in enumerate(row):
        u -= probability
        if u < 0.0 and probability > 0.0:
            return token
    return max(range(len(row)), key=row.__getitem__)


def verify(p, q, draft):
    for i, token in enumerate(draft):
        if uniform() >= p[i][token] / q[i][token]:
            return draft[:i] + [draw(p[i])]
    return draft + [draw(p[-1])]


while line := sys.stdin.readline():
    print(json.dumps({"tokens": verify(**json.loads(line)["verify"])}), flush=True)
