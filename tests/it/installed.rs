//! The program in a folder that holds nothing, as after `cargo install` without a checkout.

use std::fs;
use std::path::Path;

use crate::cli_support::{specdec, text};

/// Standard output of the program, run in `folder`, with no folder of names but what the
/// program itself holds.
#[track_caller]
fn stdout_in(folder: &Path, args: &[&str]) -> String {
    let mut command = specdec(args);
    let output = command.current_dir(folder).env_remove("SPECDEC_HOME").output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The lines that begin with one of these words.
fn lines(text: &str, words: &[&str]) -> Vec<String> {
    let begins = |line: &&str| words.iter().any(|word| line.starts_with(word));
    text.lines().filter(begins).map(str::to_owned).collect()
}

fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_pair_generates_the_same_text_as_in_the_checkout() {
    let empty = tempfile::tempdir().unwrap();
    let args = ["generate", "impl Iterator for", "-n", "12", "--temperature", "0.7"];
    let found = stdout_in(empty.path(), &args);
    assert_eq!(found, stdout_in(checkout(), &args));
    assert!(!found.trim().is_empty());
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0, "nothing is written");
}

#[test]
fn bench_and_list_need_no_file() {
    let empty = tempfile::tempdir().unwrap();
    let mut bench = specdec(&["bench", "--interactive"]);
    let bench = bench.current_dir(empty.path()).env_remove("SPECDEC_HOME").write_stdin("quit\n");
    let answer = text(&bench.output().unwrap().stdout);
    assert!(answer.contains("embedded:/models/target"), "{answer}");
    assert!(stdout_in(empty.path(), &["list"]).contains("prompt_lookup"));
}

/// The hash of a plan covers the models' files, and the text and tokens of all prompts.
#[test]
fn prompt_sets_and_models_have_the_hashes_of_the_checkout() {
    let sets = fs::read_dir(checkout().join("configs/prompts")).unwrap();
    let names = sets.map(|set| set.unwrap().path());
    let names = names.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    let mut names = names.collect::<Vec<_>>();
    names.sort();
    let folder = tempfile::tempdir().unwrap();
    let experiment = folder.path().join("mine.toml");
    let text = format!(
        "question = \"Is it the same?\"\ntarget = \"embedded-target\"\ndraft = \"embedded-draft\"\n\
         prompts = {names:?}\nmax_tokens = 2\n[sweep]\ndrafter = \"model\"\ntemperature = 0\n"
    );
    fs::write(&experiment, text).unwrap();
    let args = ["plan", experiment.to_str().unwrap()];
    let words = ["target", "draft", "prompts", "plan hash"];
    let found = lines(&stdout_in(folder.path(), &args), &words);
    assert_eq!(found, lines(&stdout_in(checkout(), &args), &words));
    assert_eq!(found.len(), words.len(), "{found:?}");
}

/// Catches: an experiment of the program that hides the user's own of the same path.
#[test]
fn experiments_of_the_program_run_where_none_lies() {
    let empty = tempfile::tempdir().unwrap();
    let words = ["target", "draft", "prompts", "plan hash"];
    for path in ["experiments/00-smoke", "experiments/01-draft-length"] {
        let args = ["plan", path, "--quick"];
        let found = lines(&stdout_in(empty.path(), &args), &words);
        assert_eq!(found, lines(&stdout_in(checkout(), &args), &words));
        assert_eq!(found.len(), words.len(), "{found:?}");
    }
    let report = stdout_in(empty.path(), &["run", "experiments/00-smoke", "--quick"]);
    assert!(report.starts_with("results/00-smoke/"), "{report}");
    let own = empty.path().join("experiments/00-smoke");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("experiment.toml"), "question = 1\n[sweep]\n").unwrap();
    let mut plan = specdec(&["plan", "experiments/00-smoke"]);
    let plan = plan.current_dir(empty.path()).env_remove("SPECDEC_HOME").output().unwrap();
    assert!(!plan.status.success(), "{}", text(&plan.stdout));
    assert!(text(&plan.stderr).contains("experiments/00-smoke/experiment.toml"));
}

#[test]
fn an_experiment_that_is_passed_in_runs() {
    let folder = tempfile::tempdir().unwrap();
    let text = "question = \"Does it run?\"\ntarget = \"embedded-target\"\n\
                draft = \"embedded-draft\"\nprompts = \"smoke\"\nmax_tokens = 3\nclock = \"virtual\"\n\
                [sweep]\ndrafter = \"model\"\nnum_speculative_tokens = 2\ntemperature = 0\n";
    fs::create_dir(folder.path().join("mine")).unwrap();
    fs::write(folder.path().join("mine/experiment.toml"), text).unwrap();
    let report = stdout_in(folder.path(), &["run", "mine"]);
    let report = folder.path().join(report.trim());
    assert!(fs::read_to_string(report).unwrap().contains("Does it run?"));
}
