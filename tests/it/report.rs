//! The report: from a results folder to the files that it writes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use specdec::measure::rows::{DivergenceRow, FailureRow, SummaryRow, SurvivalRow};
use specdec::run::report::{Run, load, report};
use tempfile::TempDir;

use crate::synthetic::{Rows, Synthetic};

pub(crate) const FIGURES: [&str; 7] = [
    "methods",
    "speedup",
    "acceptance",
    "survival",
    "accepted_length",
    "time_per_round",
    "categories",
];

pub(crate) fn written(rows: &Rows) -> TempDir {
    let folder = TempDir::new().unwrap();
    rows.write(folder.path());
    folder
}

/// The rows of `summary.csv` of a run.
pub(crate) fn summary(run: &Run) -> Vec<SummaryRow> {
    run.cells.iter().map(|cell| cell.row.clone()).collect()
}

pub(crate) fn reported(rows: &Rows) -> (TempDir, String) {
    let folder = written(rows);
    report(folder.path()).unwrap();
    let text = fs::read_to_string(folder.path().join("report.md")).unwrap();
    (folder, text)
}

fn read<T: serde::de::DeserializeOwned>(folder: &Path, name: &str) -> Vec<T> {
    let mut reader = csv::Reader::from_path(folder.join(name)).unwrap();
    reader.deserialize().map(Result::unwrap).collect()
}

/// The error of a report as one sentence.
fn refused(folder: &Path) -> String {
    format!("{:#}", report(folder).unwrap_err())
}

fn append(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    let old = fs::read_to_string(&path).unwrap();
    fs::write(path, old + text).unwrap();
}

#[test]
fn a_report_recovers_the_parameters_of_the_simulation() {
    let rows = Synthetic::large().rows();
    let (folder, text) = reported(&rows);
    let summary: Vec<SummaryRow> = read(folder.path(), "summary.csv");
    assert_eq!(summary.len(), rows.plan.cells.len());
    let baseline = &summary[0];
    assert_eq!((baseline.drafter.as_str(), baseline.num_speculative_tokens), ("none", None));
    assert_eq!(baseline.baseline_forwards_per_token, Some(1.0));
    assert_eq!((baseline.alpha, baseline.speedup, baseline.cost_ratio), (None, None, None));
    let cell = summary.iter().find(|row| row.cell == "model-4-0.7").unwrap();
    // 0.86 − 0.1·0.7; prompts scatter by 0.035 around it, and three standard errors
    // of 40 prompts are allowed.
    assert!((cell.alpha.unwrap() - 0.79).abs() < 0.017);
    assert!(cell.alpha_lo < cell.alpha && cell.alpha < cell.alpha_hi);
    assert!((cell.verify_cost_ratio.unwrap() - 4880.0 / 3600.0).abs() < 1e-12);
    assert!((cell.cost_ratio.unwrap() - 420.0 / 3600.0).abs() < 1e-12);
    let quotient = cell.tokens_per_second.unwrap() / cell.baseline_tokens_per_second.unwrap();
    assert!((cell.speedup.unwrap() - quotient).abs() < 1e-9);
    // The simulation obeys the cost model and gives every position the same
    // probability, so only chance is left: three times half the interval.
    let half = (cell.speedup_hi.unwrap() - cell.speedup_lo.unwrap()) / 2.0;
    assert!((cell.predicted_speedup.unwrap() - cell.speedup.unwrap()).abs() < 3.0 * half);

    let survival: Vec<SurvivalRow> = read(folder.path(), "survival.csv");
    let curve = survival.iter().filter(|row| row.cell == "model-8-1").collect::<Vec<_>>();
    assert_eq!(curve.len(), 8);
    let mut product = 1.0;
    for row in curve {
        product *= row.survived as f64 / row.reached as f64;
        assert!((row.survival - product).abs() < 1e-12);
        assert!(row.lo <= row.survival && row.survival <= row.hi);
    }
    assert!(text.contains("> How far ahead should the draft look?"));
}

#[test]
fn a_setting_with_several_values_gets_a_figure() {
    let rows = Synthetic { temperatures: vec![0.0, 25.0, 40.0, 65.0], ..Synthetic::tiny() }.rows();
    let (folder, text) = reported(&rows);
    assert!(text.contains("(figures/by_temperature.svg)"));
    let svg = fs::read_to_string(folder.path().join("figures/by_temperature.svg")).unwrap();
    // A tick at every value of the setting.
    for tick in ["0", "25", "40", "65"] {
        assert!(svg.contains(&format!(">{tick}<")), "no tick {tick}");
    }
}

#[test]
fn making_a_report_again_gives_identical_files() {
    let (folder, _) = reported(&Synthetic::tiny().rows());
    let files = || {
        let mut files = BTreeMap::new();
        for dir in ["", "figures"] {
            for entry in fs::read_dir(folder.path().join(dir)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    files.insert(path.clone(), fs::read(path).unwrap());
                }
            }
        }
        files
    };
    let first = files();
    report(folder.path()).unwrap();
    assert!(first == files());
    // Two draft lengths do not make a curve, so two of the figures are missing.
    assert_eq!(first.len(), 6 + 5 + FIGURES.len() - 2);
}

#[test]
fn the_text_of_a_tiny_report() {
    let (_folder, text) = reported(&Synthetic::tiny().rows());
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny_report.txt");
    let expected = fs::read_to_string(&kept).unwrap();
    if text != expected {
        let found = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tiny_report.txt");
        fs::write(&found, &text).unwrap();
        panic!("{} has another text than {}", found.display(), kept.display());
    }
}

#[test]
fn superseded_generations_do_not_change_the_summary() {
    let clean = Synthetic::tiny().rows();
    let mut crashed = clean.clone();
    let mut old = clean.generations[1].clone();
    old.superseded = true;
    old.decode_us *= 100.0;
    crashed.generations.insert(0, old);
    let (a, b) = (written(&clean), written(&crashed));
    let results = load(b.path()).unwrap();
    assert_eq!(summary(&results), summary(&load(a.path()).unwrap()));
    assert_eq!(results.notes.len(), 1);
    assert!(
        results.notes[0].starts_with("1 generations of blocks that were run again"),
        "{:?}",
        results.notes
    );
}

#[test]
fn a_torn_last_line_is_left_out_with_a_note() {
    let rows = Synthetic::tiny().rows();
    let folder = written(&rows);
    append(folder.path(), "rounds.csv", "model-3-1,prompt-0");
    append(folder.path(), "generations.csv", "model-3-1,prompt-02,\"co");
    let results = load(folder.path()).unwrap();
    assert_eq!(
        results.notes,
        [
            "The last line of rounds.csv was torn by a crash and is left out.",
            "The last line of generations.csv was torn by a crash and is left out."
        ]
    );
    let intact = written(&rows);
    assert_eq!(summary(&results), summary(&load(intact.path()).unwrap()));
}

#[test]
fn rows_of_an_unlisted_block_do_not_count() {
    let folder = written(&Synthetic::tiny().rows());
    let file = folder.path().join("blocks.csv");
    let text = fs::read_to_string(&file).unwrap();
    let last = text.lines().last().unwrap();
    fs::write(&file, text.replace(&format!("{last}\n"), "")).unwrap();
    let results = load(folder.path()).unwrap();
    assert_eq!(results.notes, ["1 blocks that were not finished are left out."]);
    let rows = summary(&results);
    let row = |cell: &str| rows.iter().find(|row| row.cell == cell).unwrap();
    assert_eq!((row("model-3-1").generations, &*row("model-3-1").status), (2, "partial"));
    assert_eq!((row("model-3-0").generations, &*row("model-3-0").status), (3, "finished"));
}

#[test]
fn a_missing_column_is_named() {
    let folder = written(&Synthetic::tiny().rows());
    let path = folder.path().join("rounds.csv");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, text.replace("overlap_sum", "overlap")).unwrap();
    assert_eq!(refused(folder.path()), "rounds.csv has no column \"overlap_sum\"");
}

#[test]
fn damaged_and_missing_files_are_named() {
    let rows = Synthetic::tiny().rows();
    for name in ["plan.toml", "manifest.json", "rounds.csv", "generations.csv"] {
        let folder = written(&rows);
        fs::remove_file(folder.path().join(name)).unwrap();
        assert!(refused(folder.path()).contains(name), "{}", refused(folder.path()));
        rows.write(folder.path());
        fs::write(folder.path().join(name), "nonsense\n{\n").unwrap();
        assert!(refused(folder.path()).contains(name), "{}", refused(folder.path()));
    }
    let folder = written(&rows);
    append(folder.path(), "generations.csv", "a,b,c\n");
    let error = refused(folder.path());
    assert!(error.starts_with("generations.csv is damaged: CSV error: record"), "{error}");
    let error = refused(&folder.path().join("nowhere"));
    assert!(error.contains("nowhere is not a folder"), "{error}");
}

#[test]
fn an_unknown_cell_is_named() {
    let folder = written(&Synthetic::tiny().rows());
    let file = folder.path().join("generations.csv");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("none-0-0,", "stranger,", 1)).unwrap();
    assert_eq!(
        refused(folder.path()),
        "generations.csv has a row of cell stranger, prompt prompt-00, repeat 0, which plan.toml \
         does not know"
    );
}

#[test]
fn edited_plans_and_costs_are_refused() {
    for (file, from, to, part) in [
        ("plan.toml", "repeats = 1", "repeats = 2", "its contents do not have the hash"),
        (
            "plan.toml",
            "verifier = \"rejection\"",
            "verifier = \"traversal\"",
            "its contents do not have the hash",
        ),
        ("manifest.json", "\"none-0-0\"", "\"stranger\"", "costs of cell stranger"),
        ("manifest.json", "draft_us_per_token", "draft_us", "unknown field `draft_us`"),
    ] {
        let folder = written(&Synthetic::tiny().rows());
        let path = folder.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from} in {text}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let error = refused(folder.path());
        assert!(error.contains(file) && error.contains(part), "{error}");
    }
    // Line endings converted by git do not change a plan.
    let folder = written(&Synthetic::tiny().rows());
    let path = folder.path().join("plan.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace('\n', "\r\n")).unwrap();
    load(folder.path()).unwrap();
}

#[test]
fn failures_are_shown_with_their_reason_and_not_timed() {
    let mut rows = Synthetic::tiny().rows();
    let failed = |cell: &str, prompt: &str| FailureRow {
        cell: cell.into(),
        prompt: prompt.into(),
        repeat: 0,
        reason: "logits are NaN".into(),
        superseded: false,
    };
    let lost = |cell: &str, prompt: &str| {
        cell == "model-1-0" || (cell == "model-3-0" && prompt == "prompt-01")
    };
    rows.generations.retain(|g| !lost(&g.cell, &g.prompt));
    rows.rounds.retain(|r| !lost(&r.cell, &r.prompt));
    rows.failures = vec![failed("model-3-0", "prompt-01")];
    rows.failures.extend(rows.plan.prompts.iter().map(|p| failed("model-1-0", p)));
    let (folder, text) = reported(&rows);
    let rows: Vec<SummaryRow> = read(folder.path(), "summary.csv");
    let row = |cell: &str| rows.iter().find(|row| row.cell == cell).unwrap();
    assert_eq!(row("model-3-0").status, "partial");
    assert_eq!(row("model-3-0").reason, "logits are NaN (prompt-01)");
    assert_eq!(row("model-1-0").status, "failed");
    assert_eq!(row("model-1-0").reason, "logits are NaN (prompt-00, and 2 more)");
    assert_eq!((row("model-1-0").speedup, row("model-1-0").tokens_per_second), (None, None));
    assert!(text.contains("- 2 of 10 cells have not finished: "), "{text}");
    assert!(text.contains("is failed: logits are NaN"), "{text}");
}

#[test]
fn a_baseline_with_fewer_passes_than_tokens_is_called_out() {
    let mut rows = Synthetic::tiny().rows();
    // The first two rounds of plain decoding become one, as if a draft had been used.
    rows.rounds.retain(|r| r.cell != "none-0-1" || r.round != 1);
    for round in rows.rounds.iter_mut().filter(|r| r.cell == "none-0-1") {
        if round.round == 0 {
            (round.proposed, round.depth, round.accepted) = (1, 1, 1);
            (round.reached, round.emitted, round.accepted_raw) = (1, 2, Some(1));
        } else {
            round.round -= 1;
        }
    }
    for generation in rows.generations.iter_mut().filter(|g| g.cell == "none-0-1") {
        let own = rows
            .rounds
            .iter()
            .filter(|r| (&r.cell, &r.prompt) == (&generation.cell, &generation.prompt));
        let us = own.map(|r| r.draft_us + r.target_us + r.verify_us + r.other_us);
        generation.decode_us = us.sum();
        generation.target_forwards -= 1;
    }
    let (_folder, text) = reported(&rows);
    assert!(text.contains("made 45 target passes for 48 tokens, not one each"), "{text}");
    assert!(text.contains("| 0.938 |"), "{text}");
}

#[test]
fn greedy_differences_raise_an_alarm_unless_they_are_ties() {
    let mut rows = Synthetic::tiny().rows();
    let found = |prompt: &str, top2_gap: f64| DivergenceRow {
        cell: "model-3-0".to_owned(),
        prompt: prompt.to_owned(),
        repeat: 0,
        position: 5,
        plain_token: Some(7),
        token: Some(9),
        top2_gap: Some(top2_gap),
        bound: Some(2e-3),
        tie: top2_gap <= 2e-3,
    };
    rows.divergences = vec![found("prompt-00", 1e-4)];
    let (_folder, text) = reported(&rows);
    assert!(text.contains("| 1 of 3 | 1 |"), "{text}");
    assert!(text.contains("| prompt-00 | 5 | 7 | 9 | 1.00e-4 | 2.00e-3 | yes |"), "{text}");
    assert!(!text.contains("no tie"), "{text}");
    rows.divergences.push(found("prompt-01", 0.5));
    let (_folder, text) = reported(&rows);
    assert!(text.contains("| 2 of 3 | 1 |"), "{text}");
    assert!(
        text.contains(
            "1 completions differ from those of plain decoding where they must not, and not at a tie"
        ),
        "{text}"
    );
}

#[test]
fn a_traced_run_shows_acceptance_by_entropy() {
    let mut rows = Synthetic::tiny().rows();
    rows.trace();
    let (_folder, text) = reported(&rows);
    assert!(text.contains("## Acceptance by the target's entropy"), "{text}");
    let (_folder, text) = reported(&Synthetic::tiny().rows());
    assert!(!text.contains("entropy of the target"), "{text}");
}

#[test]
fn a_run_that_has_barely_begun_still_has_a_report() {
    let mut rows = Synthetic::tiny().rows();
    rows.generations.truncate(1);
    let (folder, text) = reported(&rows);
    assert!(text.contains("is not run"), "{text}");
    assert!(!folder.path().join("figures/speedup.svg").exists());
    assert!(!text.contains("figures/speedup.svg"));
}
