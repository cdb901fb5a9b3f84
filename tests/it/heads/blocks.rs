//! Drafters of blocks: widths and readings by settings, estimates of acceptance, and what is
//! refused.

use specdec::checkpoint::pair::Pair;
use specdec::engine::HeadSettings;
use specdec::method::decode::{Generation, MethodSpec, StopRules};
use specdec::method::draft::Tools;
use specdec::model::ModelInputs;

use super::history::still;
use super::parity::{
    CASES, CLOSE, Expected, Script, expected, folder, largest, pair_of, source, target_of, text,
};
use crate::asking::spec;

/// Where programs run another block, the difference is a setting.
#[test]
fn every_reading_of_a_block_is_a_setting() {
    let none = HeadSettings::default;
    let readings = [
        ("width_4", HeadSettings { block: Some(4), ..none() }),
        ("causal", HeadSettings { causal: Some(true), ..none() }),
        ("bidirectional", HeadSettings { causal: Some(false), ..none() }),
        ("anchor_first", HeadSettings { anchor_first: Some(true), ..none() }),
        ("fill_in", HeadSettings { anchor_first: Some(false), ..none() }),
    ];
    let cases = CASES.iter().filter(|case| case.starts_with('d'));
    let mut compared = 0;
    for case in cases {
        let Expected { target, ids, rounds, variants, .. } = expected(case);
        let target = target_of(case, &target);
        for (name, settings) in &readings {
            let Some(variant) = variants.get(*name) else { continue };
            let head = source(case, settings.clone());
            let most = largest(&head, &target, ids.as_deref(), variant);
            assert!(most < CLOSE, "{case}, {name}: {most}");
            let most = largest(&head, &target, ids.as_deref(), &rounds);
            // Where rows see none after them, the width of a block changes none.
            let changes = !(*case == "dflash_causal" && *name == "width_4");
            assert_eq!(most > 0.01, changes, "{case}, {name}: {most}");
            assert!(changes || most < CLOSE);
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared}");
}

/// The number of drafted tokens after a context, of which these are drawn first.
fn drafted(pair: &Pair, context: &[u32], chain: &[u32], threshold: f64) -> usize {
    let model = &*pair.target.model;
    let tools = Tools { draft: pair.draft_model(), target: Some(model), texts: None };
    let length = "confidence_head".to_owned();
    let settings = [("acceptance_threshold", &*threshold.to_string())];
    let spec = MethodSpec { length, ..spec("model", 16, &settings) };
    let (method, stop) = (spec.build_with(tools).unwrap(), StopRules::max_tokens(64));
    let mut generation = Generation::new(model, method, context, stop, None).unwrap();
    generation.prefill(model, &still()).unwrap();
    let mut script = Script(chain.iter().copied().collect());
    generation.propose(&mut script, &still()).unwrap().draft.len()
}

/// The estimates are those of the references: drafts end before the first token whose estimate is
/// smaller than the threshold, for thresholds next to each estimate.
#[test]
fn drafts_end_where_the_reference_expects_a_rejection() {
    let compared = CASES.map(|case| ends_as_expected(case, || pair_of(case))).iter().sum::<usize>();
    assert!(compared > 40, "{compared}");
}

/// Checks the drafts of a case, if it has estimates, and returns how many it compared.
pub(super) fn ends_as_expected(case: &str, pair: impl Fn() -> Pair) -> usize {
    let Expected { rounds, .. } = expected(case);
    let round = &rounds[0];
    let longest = round.rows.iter().map(|row| &row.drafted).max_by_key(|drafted| drafted.len());
    let chain = longest.unwrap();
    let on_chain = round.rows.iter().filter(|row| chain.starts_with(&row.drafted));
    let Some(estimates) = on_chain.map(|row| row.confidence).collect::<Option<Vec<_>>>() else {
        return 0;
    };
    let pair = pair();
    for estimate in &estimates {
        for threshold in [estimate - CLOSE, estimate + CLOSE] {
            let expected = estimates.iter().take_while(|own| **own >= threshold).count();
            let found = drafted(&pair, &round.context, chain, threshold.clamp(0.0, 1.0));
            assert_eq!(found, expected, "{case}, {threshold}: {estimates:?}");
        }
    }
    2 * estimates.len()
}

/// A drafter without estimates cannot end drafts by them.
#[test]
fn lengths_by_estimates_need_a_drafter_with_estimates() {
    for case in ["dflash", "eagle3_plain", "pard"] {
        let pair = pair_of(case);
        let model = &*pair.target.model;
        for drafter in ["model", "prompt_lookup"] {
            let tools = Tools { draft: pair.draft_model(), target: Some(model), texts: None };
            let length = "confidence_head".to_owned();
            let method = MethodSpec { length, ..spec(drafter, 4, &[]) }.build_with(tools).unwrap();
            let generation =
                Generation::new(model, method, &[1, 2], StopRules::max_tokens(4), None);
            let error = generation.unwrap_err().to_string();
            assert!(error.contains("needs a draft with a confidence head"), "{error}");
        }
    }
}

/// The deepest draft is that of the block, and what estimates acceptance says so.
#[test]
fn blocks_say_how_deep_they_draft() {
    for (case, deepest, estimates) in [
        ("dflash", 5, false),
        ("dspark_vanilla", 6, true),
        ("dspark_rnn", 6, false),
        ("dspark_speculators", 5, true),
    ] {
        let pair = pair_of(case);
        let info = pair.draft_model().unwrap().info();
        assert_eq!(info.deepest, Some(deepest), "{case}");
        let ModelInputs::Features(features) = &info.inputs else { panic!("{case} is a head") };
        assert_eq!(features.estimates, estimates, "{case}");
    }
}

/// A copy of a fixture with changed keys of its configuration; `null` removes one.
fn changed(case: &str, changes: serde_json::Value) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let from = folder(case);
    for file in std::fs::read_dir(&from).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    let path = copy.path().join("config.json");
    let mut config: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    fn merge(into: &mut serde_json::Value, changes: &serde_json::Value) {
        for (key, value) in changes.as_object().unwrap() {
            match value {
                serde_json::Value::Null => drop(into.as_object_mut().unwrap().remove(key)),
                serde_json::Value::Object(_) => merge(&mut into[key], value),
                _ => into[key] = value.clone(),
            }
        }
    }
    merge(&mut config, &changes);
    std::fs::write(&path, config.to_string()).unwrap();
    copy
}

/// What a file leaves open or programs read differently is refused in one sentence that names the
/// key.
#[test]
fn what_a_block_leaves_open_is_refused() {
    use serde_json::{Value, json};
    let nothing = Value::Null;
    for (case, changes, said) in [
        ("dflash", json!({"block_size": nothing}), "block_size is missing"),
        ("dflash", json!({"block_size": 1}), "a block of one row predicts nothing"),
        ("dflash", json!({"block_size": 65}), "block_size is 65, but must be"),
        (
            "dflash",
            json!({"dflash_config": {"mask_token_id": nothing}}),
            "mask_token_id is missing",
        ),
        ("dflash", json!({"dflash_config": {"mask_token_id": 96}}), "mask_token_id is 96"),
        ("dflash", json!({"dflash_config": {"target_layer_ids": [0, 9]}}), "after [1, 10] layers"),
        ("dflash", json!({"dflash_config": {"projector_type": "domino"}}), "domino"),
        ("dflash", json!({"dflash_config": {"selector_rank": 4}}), "selector_rank"),
        ("dflash_window", json!({"use_sliding_window": false}), "use_sliding_window is not true"),
        (
            "dspark_speculators",
            json!({"sample_from_anchor": nothing}),
            "anchor_first = true or false",
        ),
        ("dspark_vanilla", json!({"markov_head_type": "mlp"}), "markov_head_type is \"mlp\""),
        ("dspark_vanilla", json!({"markov_rank": 8}), "markov_head.markov_w1.weight"),
        ("peagle", json!({"mask_token_id": nothing}), "mask_token_id is missing"),
    ] {
        let copy = changed(case, changes);
        let target = target_of(case, &expected(case).target);
        let pair = Pair::load(text(&target)).unwrap();
        let error = pair.with_draft(text(copy.path())).unwrap_err().to_string();
        assert!(error.contains(said), "{case}: {error}");
        assert!(error.contains("config.json") || error.contains("safetensors"), "{error}");
    }
    let settings = HeadSettings { causal: Some(true), ..HeadSettings::default() };
    let target = Pair::load(text(&folder("llama"))).unwrap();
    let error = target.with_draft(source("pard", settings)).unwrap_err().to_string();
    assert!(error.contains("is no head: leave out"), "{error}");
}
