//! Prompts that are equal: they count as one in everything that is said about prompts.

use std::fs;

use specdec::measure::rows::SummaryRow;
use specdec::run::experiment::read_plan;
use specdec::run::report::load;

use crate::cli_support::stdout;
use crate::cli_tape_support::{PROMPTS, TapeFolder, rows};
use crate::report::{reported, summary, written};
use crate::synthetic::{Rows, Synthetic};

/// A folder whose second half of the prompts is the first half again, under other names.
fn twice() -> TapeFolder {
    let folder = TapeFolder::new();
    let file = folder.path("toy/p.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let half = text.lines().take(PROMPTS / 2).map(|line| format!("{line}\n")).collect::<String>();
    fs::write(file, half.repeat(2)).unwrap();
    folder
}

/// Catches: copies are not found when a plan is frozen; the plan cannot be read back; a tape counts
/// prompts by their names; a comparison with a run does.
#[test]
fn copies_are_one_prompt_in_runs_and_on_tapes() {
    let folder = twice();
    let (tape, run) = (folder.scored(), folder.run());
    let plan = read_plan(&run).unwrap();
    let (firsts, copies) = plan.prompts.split_at(PROMPTS / 2);
    let expected = copies.iter().cloned().zip(firsts.iter().cloned());
    assert_eq!(plan.copies, expected.collect());
    let found = rows(run.join("summary.csv").to_str().unwrap());
    let header = specdec::run::report::headings::<SummaryRow>();
    let at = |column: &str| header.iter().position(|name| name == column).unwrap();
    for row in &found {
        let ends = ["speedup_lo", "alpha_lo", "block_efficiency_hi"].map(|column| &row[at(column)]);
        assert_eq!(ends, ["", "", ""], "six prompts give no interval");
    }
    let text = fs::read_to_string(run.join("report.md")).unwrap();
    assert!(text.contains("6 of 12 prompts are the same prompt as an earlier one"), "{text}");
    assert!(text.contains("With 6 prompts, ratios have no interval"), "{text}");
    let (csv, gaps) = (folder.path("forecast.csv"), folder.path("gaps.csv"));
    let run = run.to_str().unwrap();
    stdout(&["forecast", &tape, "--csv", &csv, "--against", run, "--against-csv", &gaps]);
    for file in [csv, gaps] {
        let header = csv::Reader::from_path(&file).unwrap().headers().unwrap().clone();
        let prompts = header.iter().position(|name| name == "prompts").unwrap();
        let found = rows(&file);
        assert!(!found.is_empty() && found.iter().all(|row| &row[prompts] == "6"), "{file}");
    }
}

fn copied(prompts: usize, copies: &[(usize, usize)]) -> Rows {
    let mut rows = Synthetic { prompts, ..Synthetic::tiny() }.rows();
    let name = |at: usize| format!("prompt-{at:02}");
    rows.plan.copies = copies.iter().map(|(copy, first)| (name(*copy), name(*first))).collect();
    rows
}

/// Catches: the interval of a ratio, a resample or a test counts a copy as a prompt.
#[test]
fn copies_do_not_shorten_intervals() {
    let ends = |rows: &Rows| {
        let folder = written(rows);
        let found = summary(&load(folder.path()).unwrap());
        let row = found.into_iter().find(|row| row.cell == "model-3-1").unwrap();
        assert!(row.speedup.is_some());
        [row.speedup_lo, row.alpha_lo, row.block_efficiency_lo]
    };
    assert!(ends(&copied(12, &[])).iter().all(Option::is_some));
    let eight = ends(&copied(12, &[(3, 0), (5, 0), (9, 1), (10, 4)]));
    assert!(eight.iter().all(Option::is_some));
    assert_ne!(eight, ends(&copied(12, &[])));
    assert_eq!(ends(&copied(12, &[(3, 0), (5, 0), (9, 1), (10, 4), (11, 4)])), [None; 3]);
    let (_folder, text) = reported(&copied(12, &[(11, 4)]));
    let spread = text.split("## Spread over prompts").nth(1).unwrap();
    let row = spread.lines().find(|line| line.starts_with("| model | T = 1 |")).unwrap();
    assert!(row.contains("| 11 |"), "{row}");
}

/// Catches: batches that share a prompt are independent; a chain of them is cut.
#[test]
fn batches_with_a_prompt_in_common_are_one_cluster() {
    let plan = |copies: &[(usize, usize)]| copied(8, copies).plan;
    assert_eq!(plan(&[]).clusters(1), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(plan(&[]).clusters(2), [0, 0, 2, 2, 4, 4, 6, 6]);
    assert_eq!(plan(&[(5, 1), (6, 1)]).clusters(1), [0, 1, 2, 3, 4, 1, 1, 7]);
    assert_eq!(plan(&[(5, 3), (6, 4)]).clusters(2), [0, 0, 2, 2, 2, 2, 2, 2]);
    assert_eq!(plan(&[(5, 3), (6, 4)]).distinct_prompts(), 6);
}

/// Catches: a plan is trusted that names prompts that it does not have.
#[test]
fn copies_of_unknown_prompts_are_refused() {
    for copies in [&[(2, 30)][..], &[(30, 1)], &[(2, 1), (1, 0)]] {
        let folder = written(&copied(12, copies));
        let error = format!("{:#}", load(folder.path()).unwrap_err());
        assert!(error.contains("\"copies\" must map prompts of the plan"), "{error}");
    }
}
