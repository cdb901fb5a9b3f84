"""The server of this project, right and wrong: `specdec serve`, with a verifier or a known-wrong
method as `speculation` ("mutant:NAME")."""

from pathlib import Path

from common import DRAFT, MOST, ROOT, TARGET, Arm, Job, Texts
from server import complete, for_each, serving

AT_ONCE = 8
# Drafts of trees, for verifiers that are made for them.
TREES = {
    "greedy_multi": ["model_tree", "siblings=top_k"],
    "k_seq": ["model_tree", "siblings=independent"],
    "spechub": ["model_tree", "siblings=hub"],
}


def command(arm: Arm) -> list[str]:
    program = ROOT / "target/release/specdec"
    made = [str(program), "serve", "--target", str(TARGET), "--draft", str(DRAFT)]
    made += ["--dtype", "f32", "-k", str(MOST), "--slots", str(AT_ONCE), "--threads", "2"]
    how, _, name = arm.speculation.partition(":")
    if how == "none":
        return [*made, "--plain"]
    if how == "mutant":
        return [*made, "--mutant", name]
    drafter, *params = TREES.get(name, ["model"])
    made += ["--verifier", name, "--drafter", drafter]
    if params:
        made += ["--param", "tree=2,2,1", *(part for one in params for part in ("--param", one))]
    return made


def write(arm: Arm, jobs: list[Job], out: Path, work: Path) -> None:
    texts = Texts(out, arm.sampling)
    with serving(command(arm), work / f"{arm.name}.log") as url:
        for_each(texts.missing(jobs), lambda job: _write(url, arm, job, texts), AT_ONCE)


def _write(url: str, arm: Arm, job: Job, texts: Texts) -> None:
    ids, rounds = complete(url, arm, job, {})
    accepted = rounds["per_step_accepted"]
    texts.add(job, ids, passes=len(accepted), accepted=accepted)
