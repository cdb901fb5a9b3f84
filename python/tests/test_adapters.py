"""Models in PyTorch against numpy, against themselves and against the program.

Skipped without torch and transformers (requirements-torch.txt)."""

import csv
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import specdec_harness as specdec
from specdec_harness import adapters, tape

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
random_weights = pytest.importorskip("heads").random_weights

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "target/release/specdec"
VOCAB = 60
#: The rounding of sums of a few hundred terms in single precision, by which passes over other
#: numbers of tokens differ.
ROUNDING = 1e-4
#: Of the embedded pair, both programs compute logits up to 30 in single precision. Of 512 tokens the
#: largest difference was 2.2e-5; with torch in double precision 1.9e-5.
SAME = 5e-5


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def loaded(name):
    model = transformers.AutoModelForCausalLM.from_pretrained(ROOT / "models" / name)
    return model.float().eval()


SIZES = dict(
    vocab_size=VOCAB,
    hidden_size=32,
    intermediate_size=48,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=128,
    tie_word_embeddings=False,
)
PROMPT = np.array([3, 1, 4, 15, 9, 26])
TOKENS = np.array([5, 35, 8, 9, 7, 9, 32, 38])


def program(*args):
    if not PROGRAM.exists():
        pytest.skip(f"needs {PROGRAM}: cargo build --release")
    subprocess.run([PROGRAM, *args], check=True, capture_output=True)


def experiment(folder, seed, prompts, max_tokens, ks, temperatures):
    """An experiment of the embedded pair in f32."""
    folder.mkdir()
    (folder / "experiment.toml").write_text(
        'question = "q"\ntarget = "embedded-target"\ndraft = "embedded-draft"\ndtype = "f32"\n'
        f'draft_dtype = "f32"\nprompts = {prompts}\nmax_tokens = {max_tokens}\nseed = {seed}\n'
        f"[sweep]\ndrafter = ['model']\nnum_speculative_tokens = {ks}\n"
        f"temperature = {temperatures}\n"
    )
    return folder


def transcribed(path, recorded, target, name, draft, more={}, **model):
    """Writes the completions of a tape with log p and log q of models in PyTorch."""
    header = recorded[0]["tape"]
    with tape.write(path, target=header["target"], samplings=header["samplings"]) as written:
        for text in (line["text"] for line in recorded if "text" in line):
            place = {key: text[key] for key in ("prompt", "repeat", "sampling", "max_tokens")}
            both = np.array(text["prompt_tokens"]), np.array(text["tokens"])
            log_p = written.log_probs(*both, target(*both, 0), sampling=text["sampling"])
            assert log_p == pytest.approx(text["log_p"], abs=SAME)
            written.sequence(*both, log_p, **place)
        written.score_with(written.drafter(name, **model), draft, 8, **more)


def test_the_embedded_pair_has_the_tape_of_the_program(tmp_path):
    ours, theirs = tmp_path / "ours.jsonl", tmp_path / "theirs.jsonl"
    pair = experiment(tmp_path / "pair", 0, '"p.jsonl"', 24, [1], [0, 0.7, 1])
    prompts = ["fn main() {", "impl Iterator for", "use std::collections::"]
    (pair / "p.jsonl").write_text("".join(json.dumps({"prompt": p}) + "\n" for p in prompts))
    program("tape", "record", pair, "--out", theirs)
    f32 = ["--dtype", "f32", "--draft", "embedded-draft", "--draft-dtype", "f32"]
    program("tape", "score", theirs, "--overlap", *f32)
    recorded = lines(theirs)
    target, draft = adapters.causal_lm(loaded("target")), adapters.causal_lm(loaded("draft"))
    more = {"target": lambda *both: np.stack(target(*both, 0))}
    transcribed(ours, recorded, target, "model", draft, more, model="embedded-draft")
    scores = [
        [line["score"] for line in each if "score" in line] for each in (lines(ours), recorded)
    ]
    for each in zip(*scores):
        own, line = ([-np.inf if q is None else q for q in score["log_q"]] for score in each)
        assert own == pytest.approx(line, abs=SAME)
        for key in ("overlap", "race"):
            assert each[0][key] == pytest.approx(each[1][key], abs=SAME)
        siblings = [each[side]["siblings"] for side in (0, 1)]
        assert siblings[0]["distinct"] == pytest.approx(siblings[1]["distinct"], abs=SAME)
        assert siblings[0]["rank"] == siblings[1]["rank"]
    rules = ["rejection", "traversal", "token_match"]
    found = [specdec.forecast(path, rules=rules)["block_efficiency"] for path in (ours, theirs)]
    assert found[0] == pytest.approx(found[1], rel=1e-5) and found[0].max() > 2


def test_a_run_measures_what_the_tape_of_a_torch_model_forecasts(tmp_path):
    ks, temperatures = [1, 2, 4, 8], [0.7, 1]
    prompts = '["code", "docs", "edits"]'
    # Seeds that differ, so that no completion is in both.
    tape_of, run_of = (
        experiment(tmp_path / name, seed, prompts, 48, ks, temperatures)
        for name, seed in (("recorded", 11), ("measured", 12))
    )
    program("tape", "record", tape_of, "--out", tmp_path / "recorded.jsonl")
    program("run", run_of, "--out", tmp_path)
    (run,) = (tmp_path / "measured").glob("*/manifest.json")
    target, draft = adapters.causal_lm(loaded("target")), adapters.causal_lm(loaded("draft"))
    recorded = lines(tmp_path / "recorded.jsonl")

    def inside(name, rows):
        """For each K and temperature, whether the 99 % interval of forecast / measured holds 1."""
        path, table = tmp_path / f"{name}.jsonl", tmp_path / f"{name}.csv"
        transcribed(path, recorded, target, "model", rows)
        program("forecast", path, "--against", run.parent, "--against-csv", table)
        with table.open() as rows_of_cells:
            cells = list(csv.DictReader(rows_of_cells))
        assert len(cells) == len(ks) * len(temperatures) and cells[0]["prompts"] == "48"
        return [cell["inside"] for cell in cells]

    # Of eight intervals of 99 %, one may miss by chance.
    assert inside("right", draft).count("true") >= 7
    # A draft that is a token late accepts less than the run.
    assert inside("late", lambda *known: np.roll(draft(*known), 1, axis=0)) == ["false"] * 8


def test_first_layers_are_a_model_of_their_own():
    whole, part = (transformers.LlamaConfig(**SIZES, num_hidden_layers=n) for n in (4, 2))
    model = random_weights(transformers.LlamaForCausalLM(whole))
    short = transformers.LlamaForCausalLM(part).float().eval()
    short.load_state_dict(model.state_dict(), strict=False)
    exit_rows = adapters.early_exit(model, 2)(PROMPT, TOKENS, 4)
    assert exit_rows.shape == (len(TOKENS), VOCAB)
    assert exit_rows == pytest.approx(adapters.causal_lm(short)(PROMPT, TOKENS, 4), abs=1e-5)
    whole = adapters.early_exit(model, 4)(PROMPT, TOKENS, 4)
    assert whole == pytest.approx(adapters.causal_lm(model)(PROMPT, TOKENS, 4), abs=1e-5)
    with pytest.raises(ValueError, match="layers is 5: allowed is 1 to 4"):
        adapters.early_exit(model, 5)


def dflash():
    """A target and a DFlash drafter of blocks of five tokens, of which four are drafted."""
    from transformers.generation.candidate_generator import DFlashTokenCandidateGenerator

    target = random_weights(
        transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SIZES, num_hidden_layers=4))
    )
    sizes = {key: size for key, size in SIZES.items() if key != "tie_word_embeddings"}
    config = transformers.MuseGlimmerAssistantConfig(
        **sizes, num_hidden_layers=2, block_size=5, mask_token_id=VOCAB - 1, target_layer_ids=[0, 2]
    )
    head = random_weights(transformers.MuseGlimmerAssistantModel(config), seed=1)

    def make(processors):
        return DFlashTokenCandidateGenerator(
            head,
            target.get_input_embeddings(),
            target.get_output_embeddings(),
            transformers.GenerationConfig(max_length=100),
            logits_processor=processors,
        )

    return target, make, 4


def mtp():
    """A target and its two layers of multi-token prediction."""
    from transformers.cache_utils import MtpCache
    from transformers.generation.candidate_generator import MTPCandidateGenerator
    from transformers.modeling_layers import MtpModel

    config = transformers.Glm4MoeConfig(
        **SIZES,
        num_hidden_layers=3,
        moe_intermediate_size=16,
        n_routed_experts=4,
        num_experts_per_tok=2,
        first_k_dense_replace=1,
        num_nextn_predict_layers=2,
    )
    target = random_weights(transformers.Glm4MoeForCausalLM(config))
    layers = random_weights(MtpModel(target, 2), seed=1)

    def make(processors):
        # Its own constructor reads the layers from a checkpoint.
        made = MTPCandidateGenerator.__new__(MTPCandidateGenerator)
        made.num_mtp_layers, made.mtp_model, made.device = 2, layers, target.device
        made.mtp_cache = MtpCache(config=config.get_mtp_config())
        made.mtp_cache.activate_past_recording()
        made.do_sample, made.logits_processor = False, processors
        made.is_main_model_prefill = True
        return made

    return target, make, 2


@pytest.mark.parametrize("family", [dflash, mtp])
def test_generators_of_transformers_draft_along_a_completion(family, tmp_path):
    target, make, most = family()
    rows = adapters.candidate_generator(target, make)
    found = list(rows(PROMPT, TOKENS, 8))
    assert [draft.shape for draft in found] == [(most, VOCAB)] * len(TOKENS)
    # A draft depends on the tokens before it alone, and not on the rounds.
    for at in (1, 3, 6):
        (alone, *_) = rows(np.concatenate([PROMPT, TOKENS[:at]]), TOKENS[at:], 8)
        assert alone == pytest.approx(found[at], abs=ROUNDING)
    # The first token of a draft follows from the context, the others depend on those before.
    other = np.where(np.arange(len(TOKENS)) == 4, 11, TOKENS)
    changed = list(rows(PROMPT, other, 8))
    assert changed[4][0] == pytest.approx(found[4][0], abs=ROUNDING)
    assert np.abs(changed[5][0] - found[5][0]).max() > 0.01
    with tape.write(tmp_path / "t.jsonl", target={"name": "tiny", "vocab": VOCAB}) as written:
        logits = adapters.causal_lm(target)(PROMPT, TOKENS, 0)
        log_p = written.log_probs(PROMPT, TOKENS, logits)
        written.sequence(PROMPT, TOKENS, log_p, prompt="a", max_tokens=40)
        written.score_with(written.drafter("head", most=most), rows, most)
    forecast = specdec.forecast(tmp_path / "t.jsonl", ks=[1, most], rules=["rejection"])
    assert 1.0 <= forecast["block_efficiency"][0] <= forecast["block_efficiency"][1]
