"""transformers on PyTorch: plain sampling, assisted generation and prompt lookup."""

import sys
from pathlib import Path

from common import (
    DRAFT,
    MOST,
    TARGET,
    THREADS,
    Arm,
    Job,
    read_request,
    run_in_venv,
    venv,
)

# The last PyTorch that NumPy 1 and transformers before 4.45 know, and the one of the others.
OLD_TORCH, TORCH = ["torch==2.4.1", "numpy<2"], ["torch==2.13.0", "numpy"]


def install(version: str, work: Path) -> Path:
    old = tuple(map(int, version.split(".")[:2])) < (4, 45)
    needed = [*(OLD_TORCH if old else TORCH), f"transformers=={version}"]
    return venv(work, f"transformers-{version}", [needed])


def write(arm: Arm, jobs: list[Job], out: Path, work: Path) -> None:
    run_in_venv(install(arm.version, work), __file__, arm, jobs, out, work)


def main() -> None:
    """Writes the texts of a request, inside the venv."""
    import torch
    import transformers
    from transformers.generation import candidate_generator

    arm, jobs, texts, _ = read_request(sys.argv[1])
    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)
    transformers.logging.set_verbosity_error()

    def load(folder: Path):
        name = "dtype" if int(transformers.__version__.split(".")[0]) > 4 else "torch_dtype"
        model = transformers.LlamaForCausalLM.from_pretrained(folder, **{name: torch.float32})
        return model.eval()

    target = load(TARGET)
    settings = {"do_sample": True, "pad_token_id": target.generation_config.eos_token_id}
    if not arm.defaults:
        sampling = arm.sampling
        settings |= {"temperature": sampling.temperature, "top_k": sampling.top_k}
        settings |= {"top_p": sampling.top_p}
    if arm.speculation == "draft":
        draft = load(DRAFT)
        if not arm.defaults:
            draft.generation_config.num_assistant_tokens = MOST
            draft.generation_config.num_assistant_tokens_schedule = "constant"
            draft.generation_config.assistant_confidence_threshold = 0.0
        settings["assistant_model"] = draft
    elif arm.speculation == "lookup":
        settings["prompt_lookup_num_tokens"] = MOST

    accepted: list[int] = []
    generators = [candidate_generator.PromptLookupCandidateGenerator]
    generators.append(candidate_generator.AssistedCandidateGenerator)
    for generator in generators:
        _record(generator, accepted)
    for job in jobs:
        accepted.clear()
        torch.manual_seed(job.seed)
        ids = torch.tensor([job.prompt_ids])
        mask = torch.ones_like(ids)
        done = target.generate(ids, attention_mask=mask, max_new_tokens=job.max_tokens, **settings)
        output_ids = done[0, ids.shape[1] :].tolist()
        if arm.speculation == "none":
            texts.add(job, output_ids, passes=len(output_ids))
        else:
            texts.add(job, output_ids, passes=len(accepted), accepted=list(accepted))


def _record(generator: type, accepted: list[int]) -> None:
    """Notes the accepted tokens of every pass where the engine reports them to its drafter."""
    known = generator.update_candidate_strategy

    def update(self, input_ids, scores, num_matches):
        accepted.append(int(num_matches))
        return known(self, input_ids, scores, num_matches)

    generator.update_candidate_strategy = update


if __name__ == "__main__":
    main()
