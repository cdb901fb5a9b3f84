//! Plans: their cells, what is refused, and what cell ids depend on.

use std::path::Path;

use specdec::checkpoint::load;
use specdec::io::input::read_text;
use specdec::method::draft::Texts;
use specdec::model::{CacheDtype, Letters, ModelInfo, Role};
use specdec::run::experiment::{Experiment, Material, Plan, freeze, read_plan};
use specdec::run::prompt::Question;

use crate::experiment_support::baseline_of;

const GOOD: &str = r#"
target = "toy:mixed"
draft = "toy:mixed"
prompts = "smoke"

[sweep]
drafter = ["model", "prompt_lookup"]
num_speculative_tokens = [1, 2]
temperature = [0, 1]
"#;

fn plan_with(target: &str, set: &[&str]) -> Result<Plan, String> {
    let (target, draft) = (load(target, Role::Target).unwrap(), load(target, Role::Draft).unwrap());
    plan_of(target.model.info(), draft.model.info(), set)
}

fn plan_of(target: &ModelInfo, draft: &ModelInfo, set: &[&str]) -> Result<Plan, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("experiment.toml");
    std::fs::write(&file, GOOD).unwrap();
    let set = set.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    let experiment = Experiment::read(&file, &set).map_err(|e| format!("{e:#}"))?;
    let has_draft = experiment.spec.draft.as_deref() != Some("none");
    let material = Material {
        name: "test",
        target,
        draft: has_draft.then_some(draft),
        training: None,
        codec: &Letters { vocab: 4 },
        prompts: &[Question::once("a", "c", "ab")],
        answers: None,
        texts: &Texts::new(&Letters { vocab: 4 }, read_text),
    };
    let frozen = freeze(&experiment.spec, &material).map_err(|e| format!("{e:#}"))?;
    Ok(frozen.plan)
}

fn plan(set: &[&str]) -> Result<Plan, String> {
    plan_with("toy:mixed", set)
}

fn ids(plan: &Plan) -> Vec<&str> {
    plan.cells.iter().map(|c| c.id.as_str()).collect()
}

#[track_caller]
fn refused(set: &[&str], parts: &[&str]) {
    let error = plan(set).expect_err("must be refused");
    for part in parts {
        assert!(error.contains(part), "{error:?} does not contain {part:?}");
    }
}

#[test]
fn every_sampling_setting_starts_with_its_only_baseline() {
    let plan = plan(&[]).unwrap();
    assert_eq!(plan.cells.len(), 2 * (1 + 2 * 2));
    for group in plan.goals() {
        assert!(group[0].is_baseline());
        assert_eq!(group.iter().filter(|c| c.is_baseline()).count(), 1);
        assert!(group.iter().all(|c| baseline_of(&plan, c).id == group[0].id));
    }
}

#[test]
fn ids_ignore_settings_that_cannot_change_tokens() {
    let reference = plan(&[]).unwrap();
    let sets: &[&[&str]] = &[
        &["threads=2"],
        &["clock=virtual"],
        &["trace=true"],
        &["max_tokens=7", "repeats=3", "warmup=0", "question=why"],
    ];
    for set in sets {
        assert_eq!(ids(&plan(set).unwrap()), ids(&reference), "{set:?}");
    }
    // The hash of the plan still differs, so that rows of both plans are never mixed.
    assert_ne!(plan(&["max_tokens=7"]).unwrap().hash, reference.hash);
}

#[test]
fn ids_depend_on_settings_that_can_change_tokens() {
    let reference = plan(&[]).unwrap();
    let of = |set: &[&str]| plan(set).unwrap();
    for set in [
        "sweep.temperature=[0, 0.9]",
        "sweep.top_k=3",
        "sweep.top_p=0.9",
        "sweep.min_p=0.1",
        "sweep.verifier=token_match",
        "sweep.num_speculative_tokens=[1, 3]",
        "sweep.draft_temperature=0.3",
        "prompt_lookup_max=2",
    ] {
        let other = of(&[set]);
        assert!(ids(&other).iter().any(|id| !ids(&reference).contains(id)), "{set}");
    }
    let other_model = plan_with("toy:zeros", &[]).unwrap();
    assert!(ids(&other_model).iter().all(|id| !ids(&reference).contains(id)));
    // Prompt lookup does not use the draft model, so that its ids stay the same without one.
    let lookup = of(&["draft=none", "sweep.drafter=prompt_lookup"]);
    assert!(ids(&lookup).iter().all(|id| ids(&reference).contains(id)));
}

#[test]
fn ids_of_cells_depend_on_the_draft_models_vocabulary() {
    let (same, other) = (plan(&[]).unwrap(), plan(&["vocabulary=intersection"]).unwrap());
    assert_eq!(ids(&plan(&["vocabulary=same"]).unwrap()), ids(&same));
    for (one, two) in same.cells.iter().zip(&other.cells) {
        assert_eq!(one.id != two.id, one.method.drafter == "model", "{}", one.method.drafter);
    }
    assert_ne!(same.hash, other.hash);
    let text = toml::to_string(&other).unwrap();
    assert!(text.contains("vocabulary = \"intersection\""), "{text}");
    assert_eq!(toml::from_str::<Plan>(&text).unwrap(), other);
    assert!(!toml::to_string(&same).unwrap().contains("vocabulary"), "the default is not written");
    refused(
        &["vocabulary=union"],
        &["\"vocabulary\"", "\"same\" or \"prefix\" or \"intersection\""],
    );
}

#[test]
fn ids_depend_on_the_device() {
    let reference = plan(&[]).unwrap();
    assert!(!toml::to_string(&reference).unwrap().contains("device"), "the CPU is not written");
    let toy = |role| load("toy:mixed", role).unwrap().model.info().clone();
    let target = ModelInfo { device: "cuda:0".to_owned(), ..toy(Role::Target) };
    let other = plan_of(&target, &toy(Role::Draft), &[]).unwrap();
    assert_eq!(other.target.device.as_deref(), Some("cuda:0"));
    assert_ne!(other.hash, reference.hash);
    assert!(ids(&other).iter().all(|id| !ids(&reference).contains(id)));
}

#[test]
fn ids_depend_on_the_type_of_the_cache() {
    let reference = plan(&[]).unwrap();
    assert!(!toml::to_string(&reference).unwrap().contains("kv_cache"), "f32 is not written");
    let toy = |role| load("toy:mixed", role).unwrap().model.info().clone();
    let target = ModelInfo { cache_dtype: CacheDtype::Q8_0, ..toy(Role::Target) };
    let other = plan_of(&target, &toy(Role::Draft), &[]).unwrap();
    assert!(toml::to_string(&other).unwrap().contains("kv_cache_dtype = \"q8_0\""));
    assert!(ids(&other).iter().all(|id| !ids(&reference).contains(id)));
    refused(&["kv_cache_dtype=q4_0"], &["kv_cache_dtype", "\"f32\" or \"f16\" or \"q8_0\""]);
}

#[test]
fn ids_are_the_same_in_every_build() {
    // Published results contain these ids: a change here breaks their link to plans.
    let plan = plan(&["sweep.drafter=model", "sweep.num_speculative_tokens=2"]).unwrap();
    assert_eq!(ids(&plan), ["21c2fd54851b", "73ed3e21bca2", "f255c5a07725", "746617862f42"]);
}

#[test]
fn a_draft_temperature_equal_to_the_targets_adds_no_cell() {
    let plan = plan(&["sweep.draft_temperature=[0.5, 1]", "sweep.temperature=1"]).unwrap();
    // baseline, model: 2 K × 2 temperatures, lookup: 2 K.
    assert_eq!(plan.cells.len(), 1 + 4 + 2);
    assert_eq!(
        plan.cells
            .iter()
            .filter(|c| c.method.params.iter().any(|p| p.0 == "draft_temperature"))
            .count(),
        2
    );
}

#[test]
fn excluded_cells_are_left_out() {
    let conditions = "exclude=[{drafter=\"prompt_lookup\", num_speculative_tokens=[1]}]";
    let plan = plan(&[conditions]).unwrap();
    assert_eq!(plan.cells.len(), 2 * (1 + 2 + 1));
    let bad = "exclude=[{draftr=\"prompt_lookup\"}]";
    refused(&[bad], &["draftr", "[[exclude]]", "\"drafter\""]);
}

#[test]
fn exclude_conditions_are_spelt_and_checked_like_axes() {
    let verifiers = "sweep.verifier=[\"rejection\", \"block\"]";
    let rest = plan(&[verifiers, "exclude=[{verifier=\"block_verification\"}]"]).unwrap();
    assert_eq!(ids(&rest), ids(&plan(&[]).unwrap()));
    // An integer is accepted where a number is expected.
    let temperatures = "sweep.draft_temperature=[2.0, 0.5]";
    let rest = plan(&[temperatures, "exclude=[{draft_temperature=2}]"]).unwrap();
    assert_eq!(ids(&rest), ids(&plan(&["sweep.draft_temperature=0.5"]).unwrap()));
    refused(&["exclude=[{verifier=\"traversl\"}]"], &["exclude.verifier", "\"traversal\""]);
    refused(&["exclude=[{length=\"fixd\"}]"], &["exclude.length", "\"fixed\""]);
    refused(&["exclude=[{drafter=\"modle\"}]"], &["exclude.drafter", "\"model\""]);
    refused(&["exclude=[{temperature=\"warm\"}]"], &["exclude.temperature", "a finite number"]);
    refused(&["exclude=[{temperature=-1}]"], &["\"exclude.temperature\" = -1: allowed"]);
    let k = ["exclude.num_speculative_tokens", "from 1 to 256"];
    refused(&["exclude=[{num_speculative_tokens=0}]"], &k);
    refused(&["exclude=[{top_k=[]}]"], &["exclude.top_k", "empty"]);
    refused(&["exclude=[{draft_temperature=-2}]"], &["\"exclude.draft_temperature\" = -2"]);
    refused(&["exclude=3"], &["\"exclude\" must be a list of tables"]);
}

#[test]
fn a_control_repeats_the_baseline_and_the_first_method() {
    let plain = plan(&[]).unwrap();
    let plan = plan(&["control=true"]).unwrap();
    assert_eq!(plan.cells.len(), plain.cells.len() + 2 * 2);
    assert!(ids(&plain).iter().all(|id| ids(&plan).contains(id)), "ids ignore the control");
    for group in plan.goals() {
        assert_eq!(group.iter().filter(|c| c.is_baseline()).count(), 1);
    }
    let controls = plan.controls();
    assert_eq!(controls.len(), 4);
    for places in controls {
        let [first, again] = places.map(|at| &plan.cells[at]);
        assert_ne!(first.id, again.id);
        assert_eq!(first.method, again.method);
    }
}

#[test]
fn several_sweeps_form_one_plan_without_duplicates() {
    let sweeps = "sweep=[{drafter=\"model\", temperature=[0, 1]}, \
                  {drafter=[\"model\", \"prompt_lookup\"], temperature=[1, 0.5]}]";
    let plan = plan(&[sweeps]).unwrap();
    let cells =
        plan.cells.iter().map(|c| (c.method.drafter.as_str(), c.method.sampling.temperature));
    assert_eq!(
        cells.collect::<Vec<_>>(),
        [
            ("none", 0.0),
            ("model", 0.0),
            ("none", 1.0),
            ("model", 1.0),
            ("prompt_lookup", 1.0),
            ("none", 0.5),
            ("model", 0.5),
            ("prompt_lookup", 0.5),
        ]
    );
    refused(&["sweep=[{drafter=\"model\", temprature=1}]"], &["temprature", "[sweep]"]);
    refused(&["sweep=[1]"], &["\"sweep\" must be a table"]);
}

#[test]
fn greedy_cells_have_class_g_and_sampled_cells_class_d() {
    let plan = plan(&[]).unwrap();
    for cell in &plan.cells {
        let expected = if cell.method.sampling.is_greedy() { "G" } else { "D" };
        assert_eq!(cell.class, expected);
    }
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    refused(&["sweep.num_speculative_tokens=0"], &["num_speculative_tokens", "from 1", "plain"]);
    refused(&["sweep.temperature=-1"], &["\"sweep.temperature\" = -1", "allowed"]);
    refused(&["sweep.top_p=1.5"], &["\"sweep.top_p\" = 1.5", "above 0, at most 1"]);
    refused(&["sweep.top_p=0"], &["\"sweep.top_p\" = 0", "allowed"]);
    refused(&["sweep.min_p=2"], &["\"sweep.min_p\" = 2", "allowed"]);
    refused(&["sweep.draft_temperature=-2"], &["\"sweep.draft_temperature\" = -2"]);
    refused(&["sweep.repetition_penalty=0"], &["\"sweep.repetition_penalty\" = 0", "from 0.001"]);
    refused(&["sweep.presence_penalty=inf"], &["\"sweep.presence_penalty\" = inf", "to 1000"]);
    refused(&["sweep.drafter=modle"], &["modle", "\"model\"", "prompt_lookup"]);
    refused(&["sweep.verifier=rejecton"], &["rejecton", "\"rejection\""]);
    refused(&["length=fixd"], &["fixd", "\"fixed\""]);
    refused(&["max_tokens=0"], &["max_tokens", "from 1 to 1000000"]);
    refused(&["repeats=0"], &["repeats", "from 1 to 10000"]);
    refused(&["threads=0"], &["threads", "from 1 to 65535"]);
    refused(&["sweep.temperature=[]"], &["sweep.temperature", "empty"]);
    refused(&["prompt_lookup_min=5"], &["prompt_lookup_max"]);
    refused(&["draft=none"], &["draft"]);
    // The message shows the number as it was written.
    let allowed = "allowed is an integer from 1 to 1024";
    refused(&["prompt_lookup_max=3.0"], &[&format!("\"prompt_lookup_max\" = 3.0: {allowed}")]);
    refused(&["prompt_lookup_max=0"], &[&format!("\"prompt_lookup_max\" = 0: {allowed}")]);
    let oracle = ["sweep.drafter=oracle", "oracle_acceptance=5"];
    refused(&oracle, &["\"oracle_acceptance\" = 5: allowed is a number from 0 to 1"]);
}

#[test]
fn special_tokens_is_part_of_the_plan_and_of_ids() {
    let (text, tokens) = (plan(&[]).unwrap(), plan(&["special_tokens=true"]).unwrap());
    assert!(!text.special_tokens && tokens.special_tokens);
    assert!(ids(&text).iter().all(|id| !ids(&tokens).contains(id)));
    assert_ne!(text.hash, tokens.hash);
    refused(&["special_tokens=1"], &["special_tokens", "true or false"]);
}

/// Catches: a plan is written in another way, so that no run of an earlier build is continued.
#[test]
fn committed_plans_are_written_as_they_stand() {
    let runs = [
        "14-beam-widths/2026-11-24-intel-xeon-2c",
        "15-batch/2026-11-27-amd-epyc-2c-110m-f32-4096",
    ];
    for run in runs {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results").join(run);
        let text = std::fs::read_to_string(folder.join("plan.toml")).unwrap();
        assert_eq!(toml::to_string(&read_plan(&folder).unwrap()).unwrap(), text, "{run}");
    }
}
