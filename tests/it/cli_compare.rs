//! `specdec compare` on the command line: runs of toys under the virtual clock, refusals, the
//! table and the CSV file.

use std::fs;
use std::path::Path;

use serde_json::Value;
use specdec::run::experiment::Manifest;

use crate::cli_support::{json, refuses, stdout};
use crate::report::written;
use crate::run_support::{folder, run, succeed};
use crate::synthetic::{Synthetic, simulated};

fn path(folder: &Path) -> &str {
    folder.to_str().unwrap()
}

fn compared(first: &Path, second: &Path) -> Value {
    json(&["compare", path(first), path(second), "--json"])
}

#[test]
fn a_run_of_toys_equals_itself_and_its_repetition() {
    let out = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for out in &out {
        succeed(run(out.path(), &["--set", "repeats=2"]));
    }
    let folders = out.each_ref().map(|out| folder(out.path()));
    for second in &folders {
        let found = compared(&folders[0], second);
        let cells = found["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 39);
        for cell in cells {
            let rows = cell["rows"].as_array().unwrap();
            // Plain decoding has its time alone.
            assert_eq!(rows.len(), if cell["baseline"] == true { 1 } else { 4 });
            for row in rows {
                assert_eq!((&row["p"], &row["p_holm"]), (&1.0.into(), &1.0.into()), "{row}");
                assert_eq!(row["finding"], "equal", "{row}");
                assert!(row["ratio"].as_f64().is_none_or(|x| (x - 1.0).abs() < 1e-12), "{row}");
                assert_eq!(row["prompts"].as_u64().unwrap().min(1), 1, "{row}");
            }
        }
        let verdict = found["verdict"].to_string();
        assert!(verdict.contains("more in 0 of 36 cells, fewer in 0"), "{verdict}");
        // 13 greedy cells, 4 prompts, 2 repeats.
        assert!(verdict.contains("Texts without chance: all 104 are equal."), "{verdict}");
        assert!(verdict.contains("Paired by prompt and repeat: 4 prompts."), "{verdict}");
        assert_eq!(found["pairing"], "prompt_and_repeat");
    }
}

/// Catches: texts that only a limit cut count as different; rounds with cut drafts are compared;
/// what only one run has is not counted.
#[test]
fn runs_of_different_extent_are_compared_as_far_as_both_go() {
    let out = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    succeed(run(out[0].path(), &["--set", "max_tokens=16"]));
    succeed(run(out[1].path(), &["--set", "max_tokens=24", "--set", "repeats=2"]));
    let folders = out.each_ref().map(|out| folder(out.path()));
    for [first, second] in [[0, 1], [1, 0]] {
        let found = compared(&folders[first], &folders[second]);
        let cells = found["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 39);
        for row in cells.iter().flat_map(|cell| cell["rows"].as_array().unwrap()) {
            assert_eq!(row["finding"], "equal", "{row}");
        }
        let verdict = found["verdict"].to_string();
        let all = "Texts without chance: all 52 are equal in the tokens that both runs have.";
        assert!(verdict.contains(all), "{verdict}");
        let (mut lacks, mut tokens) = ([0, 156], ["0 of 2496", "1248 of 3744"]);
        if first == 1 {
            lacks.reverse();
            tokens.reverse();
        }
        let said = format!("lacks them: {} generations of A and {} of B.", lacks[0], lacks[1]);
        assert!(verdict.contains(&said), "{verdict}");
        let said = format!("left out: {} tokens of A and {} of B.", tokens[0], tokens[1]);
        assert!(verdict.contains(&said), "{verdict}");
    }
}

#[test]
fn another_draft_is_matched_by_method_and_named() {
    let out = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let set = ["--set", "sweep.drafter=model", "--set", "sweep.verifier=rejection"];
    succeed(run(out[0].path(), &set));
    succeed(run(out[1].path(), &[&set[..], &["--set", "draft=toy:disjoint"]].concat()));
    let found = compared(&folder(out[0].path()), &folder(out[1].path()));
    let cells = found["cells"].as_array().unwrap();
    assert_eq!((cells.len(), &found["unmatched"]), (12, &serde_json::json!([0, 0])));
    for cell in cells {
        let same = cell["ids"][0] == cell["ids"][1];
        assert_eq!(same, cell["baseline"] == true, "only plain decoding has the same id");
    }
    let what = found["differences"].as_array().unwrap().iter().map(|d| &d["what"]);
    assert_eq!(what.collect::<Vec<_>>(), ["draft", "weights of the draft"]);
    let rates = cells.iter().filter(|cell| cell["baseline"] == false).map(|cell| {
        let rows = cell["rows"].as_array().unwrap();
        let rate = rows.iter().find(|row| row["measure"] == "acceptance_rate").unwrap();
        (rate["first"].as_f64().unwrap(), rate["second"].as_f64().unwrap())
    });
    let changed = rates.filter(|(first, second)| first != second).count();
    assert!(changed >= 6, "another draft is accepted more or less often: {changed} of 9 cells");
}

#[test]
fn a_table_of_two_machines_has_no_times() {
    let (first, second) = (written(&simulated()), written(&simulated()));
    let mut manifest = Manifest::read(second.path()).unwrap();
    manifest.sessions[0].machine.cores = 8;
    manifest.write(second.path()).unwrap();
    let csv = second.path().join("compared.csv");
    let text = stdout(&["compare", path(first.path()), path(second.path()), "--csv", path(&csv)]);
    let said = "Times are not compared, only acceptance: the machines differ in cores (2, 8).";
    assert!(text.contains(said), "{text}");
    assert!(!text.contains("time/token") && !text.contains("speedup"), "{text}");
    let csv = fs::read_to_string(csv).unwrap();
    assert!(csv.contains("block_efficiency"), "{csv}");
    assert!(!csv.contains("time_per_token") && !csv.contains("speedup"), "{csv}");
}

#[test]
fn what_cannot_be_compared_is_refused_in_one_sentence() {
    let rows = simulated();
    let folder = written(&rows);
    let own = path(folder.path());
    refuses(&["compare", own, "no/such/folder"], "no/such/folder is not a folder");
    let other = written(&Synthetic { temperatures: vec![0.3], ..Synthetic::tiny() }.rows());
    refuses(&["compare", own, path(other.path())], "have no cell in common");
    let mut renamed = rows.clone();
    renamed.plan.prompts.iter_mut().for_each(|prompt| prompt.insert(0, 'x'));
    renamed.generations.iter_mut().for_each(|g| g.prompt.insert(0, 'x'));
    renamed.rounds.iter_mut().for_each(|r| r.prompt.insert(0, 'x'));
    let renamed = written(&renamed);
    refuses(&["compare", own, path(renamed.path())], "have no prompt in common");
    let unfinished = written(&rows);
    let manifest = unfinished.path().join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"finished\"", "\"interrupted\"")).unwrap();
    let part = "is not finished: 1 of 1 blocks are done";
    refuses(&["compare", own, path(unfinished.path())], part);
}

#[test]
fn the_table_has_a_line_per_cell_and_the_csv_a_row_per_measure() {
    let folder = written(&simulated());
    let (own, csv) = (path(folder.path()), folder.path().join("compared.csv"));
    let text = stdout(&["compare", own, own, "--csv", path(&csv)]);
    let lines = text.lines().collect::<Vec<_>>();
    assert!(lines[0].starts_with("A  ") && lines[1].starts_with("B  "), "{text}");
    assert!(lines[2].starts_with("Tokens per round: B has more in 0 of 4 cells"), "{text}");
    let head = lines.iter().position(|line| line.starts_with("cell ")).unwrap();
    assert!(head <= 12, "the verdict has about ten lines: {text}");
    assert!(lines[head + 1].starts_with("plain decoding, T = 0"), "{text}");
    assert!(lines[head + 3].starts_with("model, K = 4, T = 0"), "{text}");
    assert_eq!(lines[head + 7], "", "six cells: {text}");
    let rows = csv::Reader::from_path(&csv).unwrap().into_records().map(Result::unwrap).count();
    // Four measures of four cells, and the time of two baselines.
    assert_eq!(rows, 4 * 4 + 2);
}
