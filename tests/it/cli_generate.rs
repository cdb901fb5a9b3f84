//! `specdec generate` on toy models, and the lesson on the embedded pair.

mod lesson;

mod rounds;
mod said;

use std::process::Stdio;

use serde_json::Value;
use specdec::model::zoo::{OTHER_VOCABULARIES, TOYS};

use crate::cli_support::{json, refuses, specdec, stdout, text};

const TOY: [&str; 5] = ["generate", "--target", "toy:mixed", "--prompt", "ab"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&TOY[..], more].concat()
}

#[test]
fn speculative_greedy_completions_equal_plain_ones() {
    for toy in TOYS {
        let target = format!("toy:{}", toy.name);
        let run = |more: &[&str]| {
            let common =
                ["generate", "--target", &target, "--prompt", "ab", "--temperature", "0", "-n"];
            stdout(&[&common[..], &["30"], more].concat())
        };
        let plain = run(&["--plain"]);
        assert_eq!(plain.len(), 30, "{target}");
        for drafter in ["model", "prompt_lookup"] {
            for k in ["1", "5"] {
                assert_eq!(run(&["--drafter", drafter, "-k", k]), plain, "{target} {drafter} {k}");
            }
        }
        assert_eq!(run(&["--verifier", "token_match"]), plain, "{target} token_match");
    }
}

#[test]
fn a_draft_with_another_vocabulary_needs_its_option() {
    for toy in OTHER_VOCABULARIES {
        let target = format!("toy:{}", toy.name);
        let run = |more: &[&'static str]| {
            let common = ["generate", "--target", &target, "--prompt", "ab", "--temperature", "0"];
            [
                &common.map(str::to_owned)[..],
                &more.iter().map(|&m| m.to_owned()).collect::<Vec<_>>(),
            ]
            .concat()
        };
        let refused = run(&[]);
        let refused = refused.iter().map(String::as_str).collect::<Vec<_>>();
        refuses(&refused, "vocabulary = \"intersection\" drafts the tokens that both have");
        let text = |more| {
            let args = run(more);
            json(&args.iter().map(String::as_str).chain(["--json"]).collect::<Vec<_>>())
        };
        let plain = text(&["--plain"]);
        let drafted = text(&["--vocabulary", "intersection"]);
        assert_eq!(drafted["text"], plain["text"], "{target}");
        assert_eq!(drafted["settings"]["vocabulary"], "intersection");
        assert_eq!(plain["settings"].get("vocabulary"), None);
        assert!(drafted["stats"]["proposed"].as_u64().unwrap() > 0);
    }
}

#[test]
fn stdout_contains_only_the_completion() {
    let output = specdec(&with(&["-n", "20", "--seed", "3"])).output().unwrap();
    let report = json(&with(&["-n", "20", "--seed", "3", "--json"]));
    assert_eq!(text(&output.stdout), report["text"]);
    let stats = text(&output.stderr);
    for part in
        ["20 tokens", "tokens/s", "acceptance", "block efficiency", "max_tokens", "D lossless: "]
    {
        assert!(stats.contains(part), "{stats} does not say {part}");
    }
    assert!(
        text(&specdec(&with(&["--temperature", "0"])).output().unwrap().stderr)
            .contains("G greedy-exact: ")
    );
}

#[test]
fn json_holds_text_tokens_stats_and_settings() {
    let report = json(&with(&["-n", "12", "-k", "3", "--verifier", "standard", "--json"]));
    let (stats, settings) = (&report["stats"], &report["settings"]);
    assert_eq!(report["tokens"].as_array().unwrap().len(), 12);
    assert_eq!(report["text"].as_str().unwrap().len(), 12);
    assert_eq!(report["prompt_tokens"], 2);
    assert_eq!(report["stop_reason"], "max_tokens");
    assert_eq!(report["class"], "D");
    assert_eq!(stats["new_tokens"], 12);
    assert_eq!(stats["rounds"], stats["target_forwards"]);
    assert_eq!(stats["proposed"], stats["draft_forwards"]);
    let number = |key: &str| stats[key].as_f64().unwrap();
    assert_eq!(stats["truncated_rounds"], 0);
    assert_eq!(number("accepted") + number("rounds"), 12.0);
    assert_eq!(number("acceptance_rate"), number("accepted") / number("proposed"));
    assert_eq!(number("block_efficiency"), number("accepted") / number("rounds") + 1.0);
    assert!(number("alpha") > 0.0 && number("alpha") <= 1.0);
    assert!(number("decode_us") > 0.0);
    assert_eq!(settings["verifier"], "rejection", "canonical spelling");
    assert_eq!(settings["num_speculative_tokens"], 3);
    assert_eq!(settings["draft"], "toy:mixed");
    assert_eq!(settings["sampling"]["temperature"], 1.0);
    assert_eq!(settings["seed"], 0);
}

#[test]
fn trees_have_no_alpha() {
    let tree = ["-n", "12", "-k", "2", "--drafter", "model_tree", "--json"];
    for (shape, is_tree) in [("tree=1,1", false), ("tree=2,1", true)] {
        let report = json(&with(&[&tree[..], &["--param", shape]].concat()));
        assert_eq!(report["stats"]["alpha"].is_null(), is_tree, "{shape}: {report}");
        assert!(report["stats"]["acceptance_rate"].is_number());
    }
}

#[test]
fn plain_decoding_has_one_pass_per_token_and_no_acceptance() {
    let report = json(&with(&["-n", "9", "--plain", "--draft", "not/needed", "--json"]));
    assert_eq!(report["stats"]["target_forwards"], 9);
    assert_eq!(report["stats"]["draft_forwards"], 0);
    assert_eq!(report["stats"]["acceptance_rate"], Value::Null);
    assert_eq!(report["settings"]["drafter"], "none");
    assert_eq!(report["settings"]["draft"], Value::Null);
    assert_eq!(report, {
        let mut same = json(&with(&["-n", "9", "--drafter", "plain", "--json"]));
        same["stats"] = report["stats"].clone();
        same
    });
}

#[test]
fn a_seed_fixes_the_completion() {
    let run = |seed| stdout(&with(&["-n", "40", "--seed", seed]));
    assert_eq!(run("1"), run("1"));
    assert_ne!(run("1"), run("2"));
}

#[test]
fn stops_at_strings_tokens_and_deadlines() {
    let greedy = |more: &[&str]| {
        json(&[&with(&["--temperature", "0", "-n", "30", "--json"])[..], more].concat())
    };
    // The greedy completion of this toy is aabaabaab…
    assert!(greedy(&[])["text"].as_str().unwrap().starts_with("aabaabaab"));
    let stopped = greedy(&["--stop", "baab", "--stop", "zz"]);
    assert_eq!(stopped["text"], "aa");
    assert_eq!(stopped["stop_reason"], "stop_string");
    // The earliest of several stop strings counts; it may lie in the middle of a round.
    assert_eq!(greedy(&["--stop", "baab", "--stop", "ab"])["text"], "a");
    assert_eq!(stdout(&with(&["--temperature", "0", "--stop", "baab"])), "aa");
    let deadline = greedy(&["--timeout", "0.000000001"]);
    assert_eq!(deadline["stop_reason"], "deadline");
    assert_eq!(deadline["stats"]["rounds"], 1);
    let nothing = json(&with(&["--max-tokens", "0", "--json"]));
    assert_eq!(nothing["text"], "");
    let full = json(&with(&["--max-tokens", "5000", "--json"]));
    assert_eq!(full["stop_reason"], "context_full");
}

/// Catches: escape codes in a file, or marks in a text that should be the completion alone.
#[test]
fn show_draft_leaves_files_and_pipes_alone() {
    let args = with(&["-n", "24", "--show-draft"]);
    let output = specdec(&args).output().unwrap();
    assert_eq!(text(&output.stdout), stdout(&with(&["-n", "24"])));
    let said = text(&output.stderr);
    assert!(said.starts_with("note: standard output is no terminal, so tokens"), "{said}");
    assert!(said.contains(" accepted, ") && !said.contains('\x1b'), "{said}");
}

#[test]
fn prompts_come_from_files_and_standard_input() {
    let expected = stdout(&with(&["-n", "20"]));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prompt.txt");
    for content in ["ab", "ab\n", "ab\r\n"] {
        std::fs::write(&file, content).unwrap();
        let common = ["generate", "--target", "toy:mixed", "-n", "20"];
        let path = file.to_str().unwrap();
        assert_eq!(stdout(&[&common[..], &["--prompt-file", path]].concat()), expected);
        let piped = specdec(&common).write_stdin(content).output().unwrap();
        assert_eq!(text(&piped.stdout), expected, "{content:?}");
    }
    std::fs::write(&file, [0xff, 0xfe]).unwrap();
    refuses(&["generate", "--prompt-file", file.to_str().unwrap()], "UTF-8");
}

#[test]
fn bad_inputs_are_refused_in_one_line() {
    let cases: &[(&[&str], &str)] = &[
        (&["--drafter", "modle"], "did you mean \"model\"?"),
        (&["--drafter", "modle"], "allowed are none, model, model_tree"),
        (&["--verifier", "rejektion"], "did you mean \"rejection\"?"),
        (&["--length", "fxied"], "did you mean \"fixed\"?"),
        (&["-k", "0"], "num_speculative_tokens = 0"),
        (
            &["-k", "257"],
            "num_speculative_tokens = 257 is out of range: allowed is an integer from 1",
        ),
        (
            &["--drafter", "prompt_lookup", "--draft-temperature", "0.5"],
            "draft_temperature is not a setting of prompt_lookup, rejection or fixed: leave it out",
        ),
        (&["--drafter", "eagle"], "unknown drafter \"eagle\": allowed are none, model"),
        (&["-k", "0", "--drafter", "prompt_lookup"], "num_speculative_tokens = 0"),
        (&["--temperature", "-1"], "temperature = -1 is out of range"),
        (&["--temperature", "nan"], "temperature = NaN"),
        (&["--temperature", "[0.5, 1.0]"], "only axes of experiments, below [sweep], have lists"),
        (&["--draft-temperature", "-0.5"], "draft_temperature = -0.5 is out of range"),
        (&["--top-p", "1.5"], "top_p = 1.5 is out of range"),
        (&["--top-p", "0"], "top_p = 0 is out of range"),
        (&["--min-p", "-0.1"], "min_p = -0.1 is out of range"),
        (&["--repetition-penalty", "0"], "repetition_penalty = 0 is out of range"),
        (&["--presence-penalty", "inf"], "presence_penalty = inf is out of range"),
        (&["--drafter", "prompt_lookup", "--prompt-lookup-min", "4"], "prompt_lookup_min = 4"),
        (&["--prompt-lookup-min", "4"], "prompt_lookup_min is not a setting of model"),
        (&["--param", "tre=2,1"], "did you mean \"tree\""),
        (
            &["--drafter", "model_tree", "--param", "tree=9,9"],
            "tree = 9,9: 90 nodes exceed the limit of 64",
        ),
        (
            &["--drafter", "model_tree", "--verifier", "k_seq", "--param", "siblings=top_k"],
            "verifier \"k_seq\" is not exact",
        ),
        (&["--plain", "--drafter", "model"], "--plain means --drafter none"),
        (&["--plain", "--drafter", "prompt_lookup"], "--plain means --drafter none"),
        (&["--stop", ""], "--stop is empty"),
        (&["--timeout", "0"], "--timeout 0 is out of range"),
        (&["--timeout", "-3"], "--timeout -3 is out of range"),
        (&["--draft", "no/such/folder"], "no/such/folder"),
        (&["--draft", "toy:equal"], "vocabular"),
    ];
    for (args, part) in cases {
        refuses(&with(args), part);
    }
    let toy = |prompt| ["generate", "--target", "toy:mixed", "--prompt", prompt];
    refuses(&toy(""), "the prompt is empty");
    refuses(&toy("abz"), "not 'z'");
    refuses(&toy(&"a".repeat(2000)), "has room for");
    refuses(&["generate", "--target", "toy:mixed"], "the prompt is empty");
    refuses(&["generate", "--prompt-file", "no/such/file"], "no/such/file");
    #[cfg(unix)]
    refuses(&["generate", "--prompt-file", "/dev/zero"], "a device, not a regular file");
    let mut endless = std::process::Command::new(env!("CARGO_BIN_EXE_specdec"));
    let endless = endless.arg("generate").stdin(std::fs::File::open("/dev/zero").unwrap());
    let error = text(&endless.output().unwrap().stderr);
    assert!(
        error.starts_with("error: cannot read the prompt: standard input: larger than 256 MiB")
    );
    refuses(
        &["generate", "--target", "no/such/model", "--prompt", "a", "--plain"],
        "no/such/model",
    );
    refuses(&["generate", "--target", "embeded-target", "--prompt", "a"], "\"embedded-target\"?");
    refuses(&["generate", "--target", "toy:mxied", "--prompt", "a"], "did you mean \"mixed\"?");
    refuses(&["generate", "--target", "toy:no.json", "--prompt", "a"], "no.json");
    refuses(&["generate", "--target", ".", "--prompt", "a"], "name one with --draft");
    refuses(&["generate", "--target", ".", "--prompt", "a", "--plain"], "config.json");
}

#[test]
fn a_broken_toy_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toy.json");
    let toy = r#"{"vocab": 2, "order": 0, "target": {"": [0.5, 0.6]}, "draft": {"": [1, 0]}, "prompt": [0]}"#;
    std::fs::write(&file, toy).unwrap();
    let name = format!("toy:{}", file.display());
    refuses(&["generate", "--target", &name, "--prompt", "a"], "sum to 1.1");
}

#[test]
fn wrong_usage_names_the_option() {
    for (args, part) in [
        (&["-k", "-1"][..], "--num-speculative-tokens"),
        (&["--threads", "0"], "--threads"),
        (&["--json", "--show-draft"], "--show-draft"),
        (&["--prompt-file", "x"], "--prompt-file"),
        (&["--temprature", "1"], "--temperature"),
    ] {
        let output = specdec(&with(args)).output().unwrap();
        assert!(!output.status.success());
        assert!(text(&output.stderr).contains(part), "{args:?}");
    }
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("specdec"))
        .args(with(&["-n", "1000"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("panicked"));
}
