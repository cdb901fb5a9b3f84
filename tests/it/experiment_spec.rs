//! Experiment files and `--set`: accepted spellings, and a clear one-line message for each
//! mistake.

use std::path::PathBuf;

use specdec::core::params::Value;
use specdec::core::registry::nearest;
use specdec::run::experiment::{Axes, Experiment, Spec};

const GOOD: &str = r#"
target = "toy:mixed"
draft = "toy:mixed"
prompts = "smoke"

[sweep]
drafter = ["model"]
temperature = [0, 1]
"#;

fn read(text: &str, set: &[&str]) -> Result<Experiment, String> {
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("experiment.toml");
    std::fs::write(&file, text).unwrap();
    let set = set.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    Experiment::read(&file, &set).map_err(|e| format!("{e:#}"))
}

/// The only sweep of an experiment.
fn sweep(spec: &Spec) -> &Axes {
    assert_eq!(spec.sweep.len(), 1);
    &spec.sweep[0]
}

/// The values of an axis of the only sweep.
fn axis<'s>(spec: &'s Spec, key: &str) -> &'s [Value] {
    sweep(spec).get(key).unwrap()
}

#[track_caller]
fn refused(text: &str, set: &[&str], parts: &[&str]) {
    let error = read(text, set).expect_err("must be refused");
    for part in parts {
        assert!(error.contains(part), "{error:?} does not contain {part:?}");
    }
    assert!(!error.contains('\n'), "more than one line: {error:?}");
}

#[test]
fn defaults_apply_and_names_of_other_tools_are_accepted() {
    let spec = read(GOOD, &[]).unwrap().spec;
    assert_eq!((spec.max_tokens, spec.repeats, spec.warmup), (64, 1, 3));
    assert!(!spec.ignore_eos);
    let aliases = GOOD
        .replace("target =", "model =")
        .replace("draft =", "assistant_model =")
        .replace("[sweep]", "max_new_tokens = 9\n[sweep]\nnum_assistant_tokens = 5\ntemp = 1")
        .replace("temperature = [0, 1]", "");
    let spec = read(&aliases, &[]).unwrap().spec;
    assert_eq!(spec.max_tokens, 9);
    assert_eq!(axis(&spec, "num_speculative_tokens"), [Value::Count(5)]);
    assert_eq!(axis(&spec, "temperature"), [Value::Number(1.0)]);
}

#[test]
fn set_replaces_keys_and_axes() {
    let set = ["max_tokens=7", "sweep.temperature=0.5", "sweep.drafter=[\"none\"]", "question=why"];
    let spec = read(GOOD, &set).unwrap().spec;
    assert_eq!(spec.max_tokens, 7);
    assert_eq!(axis(&spec, "temperature"), [Value::Number(0.5)]);
    assert_eq!(axis(&spec, "drafter"), [Value::Text("none".into())]);
    assert_eq!(spec.question, "why");
    let through_alias = read(&format!("max_new_tokens = 3\n{GOOD}"), &["max_tokens=8"]).unwrap();
    assert_eq!(through_alias.spec.max_tokens, 8);
}

#[test]
fn unknown_keys_are_answered_with_the_nearest_name() {
    let misspelt = GOOD.replace("temperature", "temprature");
    refused(&misspelt, &[], &["experiment.toml", "temprature", "[sweep]", "\"temperature\""]);
    refused(
        &format!("max_tokns = 3\n{GOOD}"),
        &[],
        &["max_tokns", "\"max_tokens\"", "allowed are"],
    );
    refused(GOOD, &["sweep.temprature=1"], &["--set", "\"temperature\""]);
    refused(GOOD, &["seeed=1"], &["--set", "\"seed\""]);
    refused(GOOD, &["seed"], &["--set", "key=value"]);
    refused(
        GOOD,
        &["sweep.verifier=blok"],
        &["(did you mean \"block\"?)", "allowed are rejection"],
    );
    refused(GOOD, &["sweep.num_asistant_tokens=3"], &["(did you mean \"num_assistant_tokens\"?)"]);
}

/// Catches: a symbol of the papers, or an axis at the top, gets a list of fifty keys and no hint.
#[test]
fn symbols_and_misplaced_keys_are_answered_with_the_key() {
    let meant = "(did you mean the axis \"num_speculative_tokens\"?): write it below [sweep]";
    for symbol in ["K", "k", "gamma"] {
        let top = format!("{symbol} = 4\n{GOOD}");
        refused(&top, &[], &[&format!("unknown key \"{symbol}\" {meant}")]);
        let below = format!("{GOOD}{symbol} = [2, 4]\n");
        refused(&below, &[], &["in [sweep]", "(did you mean \"num_speculative_tokens\"?)"]);
    }
    refused(&format!("T = 1\n{GOOD}"), &[], &["the axis \"temperature\""]);
    refused(&format!("n = 1\n{GOOD}"), &[], &["(did you mean \"max_tokens\"?): allowed are"]);
    let above = "(did you mean \"max_tokens\"?): write it at the top, above all tables";
    refused(&format!("{GOOD}max_tokns = 3\n"), &[], &["in [sweep]", above]);
    refused(GOOD, &["K=4"], &["--set", "write sweep.num_speculative_tokens=4"]);
    refused(GOOD, &["sweep.seeed=4"], &["--set", "(did you mean \"seed\"?): write seed=4"]);
}

#[test]
fn nearest_finds_names_that_differ_by_a_typo() {
    let names = ["none", "model", "model_tree", "prompt_lookup", "oracle"];
    for (name, near) in [
        ("modle", Some("model")),
        ("prompt-lokup", Some("prompt_lookup")),
        ("mode_tree", Some("model_tree")),
        ("eagle", None),
        ("lookup", None),
        ("x", None),
    ] {
        assert_eq!(nearest(name, names).as_deref(), near, "{name}");
    }
}

#[test]
fn a_key_given_under_two_names_is_refused() {
    refused(&format!("max_tokens = 3\nn_predict = 3\n{GOOD}"), &[], &["max_tokens", "n_predict"]);
}

#[test]
fn values_of_the_wrong_type_are_refused_with_what_is_allowed() {
    refused(GOOD, &["max_tokens=many"], &["max_tokens", "an integer from 1 to 1000000"]);
    refused(GOOD, &["max_tokens=-1"], &["max_tokens", "an integer from 1 to 1000000"]);
    refused(GOOD, &["clock=sundial"], &["clock", "real", "virtual"]);
    refused(GOOD, &["sweep.temperature=warm"], &["sweep.temperature", "number"]);
    refused(GOOD, &["sweep.num_speculative_tokens=1.5"], &["num_speculative_tokens", "integer"]);
    refused(GOOD, &["trace=1"], &["trace", "true or false"]);
}

/// Catches: a list at the top is answered by the range of its values alone.
#[test]
fn lists_outside_the_sweep_are_sent_there() {
    let lists = "one for all cells; only axes, below [sweep], have lists";
    refused(&format!("max_tokens = [32, 64]\n{GOOD}"), &[], &["[32, 64]", lists]);
    refused(GOOD, &["seed=[1, 2]"], &["\"seed\" = [1, 2]", lists]);
    let above = GOOD.replace("temperature = [0, 1]", "");
    let above = format!("temperature = [0.5, 1.0]\n{above}");
    refused(&above, &[], &["\"temperature\" is an axis: write it below [sweep]"]);
}

#[test]
fn missing_keys_and_files_are_named() {
    refused(&GOOD.replace("target", "question"), &[], &["\"target\" is missing"]);
    refused("= 3", &[], &["experiment.toml"]);
    let missing = Experiment::read("no/such/folder".as_ref(), &[]).unwrap_err();
    assert!(format!("{missing:#}").contains("no/such/folder"));
}
