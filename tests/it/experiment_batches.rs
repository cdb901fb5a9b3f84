//! Batches as an axis of experiments: blocks of several prompts, the same texts, shares of time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use specdec::checkpoint::load;
use specdec::core::clock::VirtualCosts;
use specdec::measure::rows::{BlockRow, GenerationRow, RoundRow, SummaryRow};
use specdec::model::Role;
use specdec::run::experiment::{Plan, read_plan};
use specdec::run::report::{load as load_results, report};

use crate::experiment_support::{baseline_of, planned, rows, run_smoke};
use crate::report::summary;

const PROMPTS: [&str; 7] = ["a", "ab", "ba", "cab", "dd", "acb", "bd"];

/// Three batches with one drafter, greedy and not.
const BATCHES: &[&str] = &[
    "sweep={batch=[1, 2, 3], drafter=\"model\", num_speculative_tokens=3, temperature=[0, 1]}",
    "max_tokens=12",
    "repeats=2",
];

fn run() -> (tempfile::TempDir, PathBuf) {
    let out = tempfile::tempdir().unwrap();
    let target = load("toy:mixed", Role::Target).unwrap().model;
    let interrupted = AtomicBool::new(false);
    let folder = run_smoke(&*target, &PROMPTS, BATCHES, &interrupted, out.path());
    (out, folder)
}

fn summaries(folder: &Path) -> Vec<SummaryRow> {
    summary(&load_results(folder).unwrap())
}

fn generations(folder: &Path, plan: &Plan, batch: usize) -> Vec<GenerationRow> {
    let cells = plan.cells.iter().filter(|cell| cell.batch == batch);
    let cells = cells.map(|cell| cell.id.clone()).collect::<Vec<_>>();
    let all = rows::<GenerationRow>(folder, "generations.csv");
    all.into_iter().filter(|row| cells.contains(&row.cell)).collect()
}

#[test]
fn every_batch_has_a_baseline_and_whole_blocks_of_prompts() {
    let (_out, folder) = run();
    let plan = read_plan(&folder).unwrap();
    assert_eq!(plan.cells.len(), 3 * 2 * 2);
    for cell in &plan.cells {
        assert_eq!(baseline_of(&plan, cell).batch, cell.batch);
    }
    // Of seven prompts, 7, 6 and 6 fill batches of 1, 2 and 3; each has two cells at two
    // temperatures in two repeats.
    for (batch, prompts) in [(1, 7), (2, 6), (3, 6)] {
        assert_eq!(generations(&folder, &plan, batch).len(), prompts * 2 * 2 * 2, "{batch}");
    }
    let blocks = rows::<BlockRow>(&folder, "blocks.csv");
    assert_eq!(blocks.len(), (7 + 3 + 2) * 2 * 2);
    assert!(blocks.iter().enumerate().all(|(i, row)| row.block == i && !row.superseded));
}

#[test]
fn a_text_is_the_same_in_every_batch() {
    let (_out, folder) = run();
    let plan = read_plan(&folder).unwrap();
    let kind = |row: &GenerationRow| {
        let cell = plan.cells.iter().find(|cell| cell.id == row.cell).unwrap();
        let temperature = cell.method.sampling.temperature.to_string();
        (cell.method.drafter.clone(), temperature, row.prompt.clone(), row.repeat)
    };
    let outcome = |row: &GenerationRow| {
        (row.text_sha256.clone(), row.target_forwards, row.draft_forwards, row.new_tokens)
    };
    let alone = generations(&folder, &plan, 1);
    let alone = alone.iter().map(|row| (kind(row), outcome(row))).collect::<BTreeMap<_, _>>();
    for batch in [2, 3] {
        for row in generations(&folder, &plan, batch) {
            assert_eq!(alone[&kind(&row)], outcome(&row), "{batch}: {row:?}");
        }
    }
}

/// Plain decoding of B texts of the same length takes the pass and B rows for each token, and a
/// text has a part of that.
#[test]
fn texts_have_shares_of_the_time_of_their_rounds() {
    let (_out, folder) = run();
    let costs = VirtualCosts::default();
    for row in summaries(&folder).iter().filter(|row| row.drafter == "none") {
        let rows = row.batch as u32;
        let step = (costs.target_pass + rows * costs.target_row).as_secs_f64();
        // A share of at least 366 µs is cut to a whole nanosecond.
        let near = |a: Option<f64>, b: f64| (a.unwrap_or_default() / b - 1.0).abs() < 1e-5;
        assert!(near(row.tokens_per_second, row.batch as f64 / step), "{row:?}");
        assert!(near(row.ms_per_token, 1000.0 * step), "{row:?}");
        assert!(near(row.texts_at_once, row.batch as f64), "{row:?}");
    }
    // With drafts, texts end at different times, and fewer remain.
    let drafted = |batch| {
        let found = summaries(&folder);
        let row = found.iter().find(|r| r.drafter == "model" && r.batch == batch);
        row.unwrap().texts_at_once.unwrap()
    };
    assert!((drafted(1) - 1.0).abs() < 1e-9);
    assert!(drafted(3) > 1.5 && drafted(3) < 3.0);
    // Shares are those of rounds.
    let mut times = BTreeMap::<_, f64>::new();
    for round in rows::<RoundRow>(&folder, "rounds.csv") {
        let us = round.draft_us + round.target_us + round.verify_us + round.other_us;
        *times.entry((round.cell, round.prompt, round.repeat)).or_default() += us;
    }
    for row in rows::<GenerationRow>(&folder, "generations.csv") {
        let of_rounds = times[&(row.cell, row.prompt, row.repeat)];
        // Both are whole nanoseconds.
        assert!((of_rounds - row.decode_us).abs() < 0.0005, "{of_rounds} {}", row.decode_us);
    }
}

#[test]
fn the_report_compares_batches() {
    let (_out, folder) = run();
    let made = report(&folder).unwrap();
    let _ = made;
    let text = std::fs::read_to_string(folder.join("report.md")).unwrap();
    let section = text.split("## Batches").nth(1).unwrap();
    assert!(section.contains("| T = 1, batch = 3 |"), "{section}");
    assert!(section.contains("0 of 12"), "{section}");
}

#[test]
fn batches_that_cannot_be_filled_or_are_searches_are_refused() {
    let refuse = |set: &[&str], says: &str| {
        let sentence = planned(set).unwrap_err();
        assert!(sentence.contains(says), "{sentence}");
    };
    refuse(&["sweep.batch=2"], "\"batch\" = 2 needs as many prompts, and there are 1");
    refuse(&["sweep.batch=0"], "allowed is an integer from 1 to 256");
    refuse(
        &["sweep={strategy=\"beam\", batch=2, drafter=\"model\", num_speculative_tokens=2}"],
        "a beam search is a batch of its own",
    );
}
