//! Controls in commands and experiments.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use specdec::run::experiment::read_plan;

use crate::cli_support::{json, refuses, specdec, stdout, text as text_of};

fn only(dir: &Path) -> PathBuf {
    fs::read_dir(dir).unwrap().next().unwrap().unwrap().path()
}

fn texts(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.map(|row| row["text"].as_str().unwrap().to_owned()).collect()
}

/// Catches: controls that reach some cells, or plain decoding alone; cells with controls and cells
/// without that have one id; a report without them.
#[test]
fn all_cells_of_an_experiment_have_its_controls() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::write(
        path("p.jsonl"),
        "{\"id\": \"a\", \"category\": \"b\", \"prompt\": \"The garden\"}\n",
    )
    .unwrap();
    let experiment = |name: &str, controls: &str| {
        let text = format!(
            "question = \"Which?\"\ntarget = \"embedded-target\"\ndraft = \"embedded-draft\"\n\
             clock = \"virtual\"\nprompts = [\"{}\"]\nmax_tokens = 24\nrepeats = 4\n{controls}\n\
             [sweep]\ndrafter = [\"model\", \"prompt_lookup\"]\nnum_speculative_tokens = [2, 4]\n\
             draft_controls = [0, 1]\n",
            path("p.jsonl")
        );
        fs::write(path(name), text).unwrap();
    };
    experiment("free.toml", "");
    experiment("bound.toml", "[controls]\nregex = \"(green|red) [a-z]{1,6}[.]\"\n");
    let run = |name: &str| {
        stdout(&["run", &path(name), "--out", &path("out")]);
        let results = dir.path().join("out").join(name.trim_end_matches(".toml"));
        only(&results)
    };
    let [free, bound] = ["free.toml", "bound.toml"].map(run);
    let found = texts(&bound.join("generations.jsonl"));
    // Plain decoding and lookups have no q of a model, so that draft_controls makes no cells.
    assert_eq!(found.len(), 4 * (1 + 4 + 2));
    for text in &found {
        let words = text.strip_suffix('.').and_then(|text| text.split_once(' '));
        let (colour, name) = words.unwrap_or_else(|| panic!("{text:?}"));
        assert!(["green", "red"].contains(&colour) && (1..=6).contains(&name.len()), "{text:?}");
    }
    let ids = |folder: &Path| {
        let plan = read_plan(folder).unwrap();
        plan.cells.iter().map(|cell| cell.id.clone()).collect::<Vec<_>>()
    };
    assert!(ids(&free).iter().all(|id| !ids(&bound).contains(id)));
    let report = fs::read_to_string(bound.join("report.md")).unwrap();
    assert!(report.contains("regex = (green\\|red) [a-z]{1,6}"), "{report}");
    refuses(&["plan", &path("free.toml"), "--set", "controls.regexp=a"], "regexp");
    experiment("wrong.toml", "[controls]\nregex = \"(\"\n");
    refuses(&["plan", &path("wrong.toml")], "[controls]: grammar regex: ");
}

/// Catches: a command that reads a control and leaves it out.
#[test]
fn commands_have_controls() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("g.lark");
    fs::write(&file, "start: \"<\" /[0-9]/ \">\"").unwrap();
    let grammar = format!("@{}", file.display());
    let generated = |more: &[&str]| json(&[&["generate", "fn main", "--json"], more].concat());
    let found = generated(&["--lark", &grammar]);
    assert_eq!(found["text"].as_str().unwrap().len(), 3, "{found}");
    assert_eq!(found["stop_reason"], "eos");
    let found = generated(&["--allowed-token-ids", "300,301", "-n", "9"]);
    let tokens = found["tokens"].as_array().unwrap();
    assert!(tokens.len() == 9 && tokens.iter().all(|token| *token == 300 || *token == 301));
    let found = generated(&["--logit-bias", "300=100", "--stop-token-ids", "300"]);
    assert_eq!((&found["text"], &found["stop_reason"]), (&"".into(), &"stop_token".into()));
    let shown = json(&["inspect", "fn main", "--regex", "[ab]", "--json", "--top", "3"]);
    assert_eq!(shown["stages"][1]["name"], "controls");
    assert_eq!(shown["stages"][1]["kept"], 2);
    refuses(&["generate", "x", "--logit-bias", "3"], "allowed is ID=X");
    refuses(&["generate", "x", "--regex", "@/none"], "--regex");
    refuses(&["generate", "x", "--regex", "a", "--num-beams", "2"], "leave out the controls");
}

/// A tape has the text of its grammar, and every command that reads it makes the rules again.
/// Catches: a tape that is scored or audited without its grammar; a token outside it that passes.
#[test]
fn tapes_are_scored_and_audited_with_their_grammar() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::write(
        path("bound.toml"),
        "question = \"Which?\"\ntarget = \"embedded-target\"\ndraft = \"embedded-draft\"\n\
         clock = \"virtual\"\nprompts = [\"code\"]\nprompts_limit = 3\nmax_tokens = 24\n\
         repeats = 4\n[controls]\nregex = \"(green|red) [a-z]{1,6}[.]\"\n\
         [sweep]\ndrafter = [\"model\"]\nnum_speculative_tokens = [2]\n",
    )
    .unwrap();
    let tape = path("t.jsonl");
    stdout(&["tape", "record", &path("bound.toml"), "--out", &tape]);
    stdout(&["tape", "score", &tape, "--draft", "embedded-draft", "--overlap"]);
    let audited = json(&["audit", &tape, "--draft", "embedded-draft", "--json"]);
    assert_eq!(audited["verdicts"][0]["refuted"], false, "{audited}");
    let text = fs::read_to_string(&tape).unwrap();
    let scored = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let scored = scored.filter(|line| line.get("score").is_some()).collect::<Vec<_>>();
    assert_eq!(scored.len(), 12);
    // Where the grammar leaves one token, both models draw it.
    let overlaps = scored.iter().flat_map(|line| line["score"]["overlap"].as_array().unwrap());
    assert!(overlaps.filter(|overlap| *overlap == 1.0).count() >= 12, "{text}");
    // A completion of the same tokens, one of them forbidden.
    let at = text.find("\"tokens\":[").unwrap() + "\"tokens\":[".len();
    let end = at + text[at..].find(',').unwrap();
    let wrong = format!("{}300{}", &text[..at], &text[end..]);
    fs::write(
        path("wrong.jsonl"),
        wrong.lines().take(2).map(|line| format!("{line}\n")).collect::<String>(),
    )
    .unwrap();
    let run = specdec(&["audit", &path("wrong.jsonl")]).output().unwrap();
    assert!(!run.status.success(), "{}", text_of(&run.stdout));
    assert!(text_of(&run.stderr).contains("not drawn from the target"), "{}", text_of(&run.stderr));
}
