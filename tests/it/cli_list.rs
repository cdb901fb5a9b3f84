//! `specdec list`, `completions` and the help.

use specdec::core::sampling::{PROCESSORS, SamplingParams};
use specdec::method::draft::DRAFTERS;
use specdec::method::length::LENGTHS;
use specdec::method::verify::VERIFIERS;
use specdec::model::zoo::TOYS;

use crate::cli_support::{json, specdec, stdout, text};

/// The registered names by registry.
fn registered() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("drafters", DRAFTERS.iter().map(|e| e.name).collect()),
        ("lengths", LENGTHS.iter().map(|e| e.name).collect()),
        ("verifiers", VERIFIERS.iter().map(|e| e.name).collect()),
        ("sampling", PROCESSORS.iter().map(|p| p.setting.key).collect()),
    ]
}

#[test]
fn list_shows_every_registered_name() {
    let (shown, table) = (json(&["list", "--json"]), stdout(&["list"]));
    for (kind, names) in registered() {
        let rows = shown[kind].as_array().unwrap();
        let listed = rows.iter().map(|row| row["name"].as_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(listed, names, "{kind}");
        for name in names {
            assert!(table.contains(&format!("  {name} ")), "{name} is in the table");
        }
    }
    for (row, entry) in shown["verifiers"].as_array().unwrap().iter().zip(VERIFIERS) {
        assert_eq!(row["class"], format!("{:?}", entry.build.class));
        assert_eq!(row["summary"], entry.summary);
        assert_eq!(row["paper"], entry.paper);
        assert_eq!(row["aliases"].as_array().unwrap().len(), entry.aliases.len());
    }
    for (row, toy) in shown["toys"].as_array().unwrap().iter().zip(TOYS) {
        assert_eq!(row["name"], format!("toy:{}", toy.name));
    }
}

#[test]
fn processors_have_the_keys_and_neutral_values_of_sampling() {
    let neutral = serde_json::to_value(SamplingParams::default()).unwrap();
    for (processor, (key, value)) in PROCESSORS.iter().zip(SamplingParams::NEUTRAL.settings()) {
        assert_eq!(
            (processor.setting.key, processor.setting.default()),
            (key, Some(value.clone()))
        );
        assert_eq!(neutral[key].as_f64(), value.number(), "{key}");
    }
}

#[test]
fn completions_know_the_options() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = stdout(&["completions", shell]);
        assert!(script.contains("num-speculative-tokens"), "{shell}");
    }
}

#[test]
fn help_shows_examples_and_defaults() {
    for command in
        ["run", "plan", "report", "generate", "inspect", "list", "certify", "completions"]
    {
        let help = stdout(&[command, "--help"]);
        assert!(help.contains(&format!("Examples:\n  specdec {command}")), "{help}");
    }
    let help = stdout(&["generate", "--help"]);
    for part in [
        "[default: 128]",
        "[default: rejection]",
        "[allowed: a finite",
        "--show-draft",
        "<SECONDS>",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[test]
fn no_command_is_an_error_with_the_list_of_commands() {
    let output = specdec(&[]).output().unwrap();
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("generate"));
}
