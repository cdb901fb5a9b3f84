//! Draft models with a shorter context than their target: completions continue without drafts.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use specdec::method::draft::DRAFTERS;
use specdec::{MethodSpec, Pair, SamplingParams};

use crate::cli_support::json as output;
use crate::hub_support::draft_files;

/// Tokens of the draft model's context.
const POSITIONS: usize = 48;
const PROMPT: &str = "fn main() {\n    let numbers = vec![1, 2, 3];\n";

/// The embedded draft with a shorter context.
fn short(folder: &Path) -> String {
    for (name, bytes) in draft_files() {
        fs::write(folder.join(name), bytes).unwrap();
    }
    let file = folder.join("config.json");
    let mut config = serde_json::from_slice::<Value>(&fs::read(&file).unwrap()).unwrap();
    config["max_position_embeddings"] = json!(POSITIONS);
    fs::write(file, config.to_string()).unwrap();
    folder.to_str().unwrap().to_owned()
}

/// Catches: a draft that is asked for where its model has no room, by any drafter; a prefill of a
/// prompt that does not fit; rounds that are not counted.
#[test]
fn rounds_beyond_the_draft_context_are_plain_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let target = concat!(env!("CARGO_MANIFEST_DIR"), "/models/target");
    let pair = Pair::load(target).unwrap().with_draft(short(folder.path()).as_str()).unwrap();
    let sampling = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
    let text = |drafter: &str, prompt: &str| {
        let (drafter, sampling) = (drafter.to_owned(), sampling.clone());
        let spec = MethodSpec { drafter, sampling, ..MethodSpec::default() };
        pair.generate(prompt, &spec, POSITIONS, 0).unwrap()
    };
    let long = PROMPT.repeat(4);
    let [plain, after] = [PROMPT, &long].map(|prompt| text("none", prompt));
    assert_eq!(plain.totals.draft_context_full, 0);
    for drafter in DRAFTERS.iter().filter(|drafter| drafter.build.needs_model) {
        let found = text(drafter.name, PROMPT);
        assert_eq!(found.tokens, plain.tokens, "{}", drafter.name);
        let full = found.totals.draft_context_full;
        // The rounds before the context is full have drafts; a lookup has some after that.
        assert!(full < found.totals.target_forwards, "{} {full}", drafter.name);
        if drafter.name != "hybrid" {
            assert!(full > 0 && found.totals.draft_forwards > 0, "{} {full}", drafter.name);
        }
        let found = text(drafter.name, &long);
        assert_eq!(found.tokens, after.tokens, "{}", drafter.name);
        assert_eq!(found.totals.draft_forwards, 0, "{}", drafter.name);
    }
}

/// Catches: commands that end with an error there, or do not show the number of such rounds.
#[test]
fn generate_shows_the_rounds_beyond_the_draft_context() {
    let folder = tempfile::tempdir().unwrap();
    let draft = short(folder.path());
    let run = |more: &[&str]| {
        let common = ["generate", "--prompt", PROMPT, "-n", "60", "--ignore-eos", "--json"];
        output(&[&common[..], more].concat())
    };
    let plain = run(&["--temperature", "0", "--plain"]);
    let drafted = run(&["--temperature", "0", "--draft", &draft]);
    assert_eq!(drafted["text"], plain["text"]);
    assert!(drafted["stats"]["draft_context_full"].as_u64().unwrap() > 0, "{drafted}");
    for several in ["--num-beams", "--samples"] {
        run(&["--draft", &draft, several, "2"]);
    }
}

/// Catches: status 400 in the middle of a stream, and a counter that stays at 0.
#[cfg(feature = "serve")]
#[test]
fn a_server_continues_beyond_the_draft_context() {
    use crate::serve_support::TestServer;
    let folder = tempfile::tempdir().unwrap();
    let draft = short(folder.path());
    let server = TestServer::of("embedded-target", &["--draft", &draft]);
    let asked = json!({
        "prompt": [PROMPT, PROMPT], "max_tokens": 60, "temperature": 0.0, "ignore_eos": true,
    });
    let response = server.complete(&asked);
    let choices = response["choices"].as_array().unwrap();
    let plain = ["generate", "--prompt", PROMPT, "-n", "60", "--temperature", "0", "--plain"];
    let plain = output(&[&plain[..], &["--ignore-eos", "--json"]].concat());
    assert!(choices.iter().all(|choice| choice["text"] == plain["text"]), "{response}");
    assert!(server.meter("specdec_draft_context_full_total") > 0.0);
}
