//! What passes cost in the rounds of a run, as `report --costs` and `tune` write it.

use std::path::Path;

use specdec::measure::rows::RoundRow;
use specdec::tapes::forecasting::{CostTable, write_costs};

use crate::synthetic::{Rows, Synthetic, simulated};

/// The simulated times of a pass are off by at most 1.5 %, and so is their mean.
const NOISE: f64 = 0.015;

/// Completions whose last rounds, which draft less, are too few to matter.
fn long_completions() -> Synthetic {
    let drafters = vec!["model"];
    let (draft_lengths, temperatures) = (vec![2, 4], vec![1.0]);
    Synthetic { prompts: 3, max_tokens: 2000, drafters, draft_lengths, temperatures }
}

fn written(rows: &Rows, folder: &Path) -> CostTable {
    rows.write(folder);
    CostTable::read(&write_costs(folder, "model").unwrap()).unwrap()
}

fn close(found: f64, put_in: f64) {
    assert!((found / put_in - 1.0).abs() < NOISE, "{found} is not {put_in}");
}

/// Catches: plain decoding has the times of rounds with drafts; the draft model's passes count
/// twice; a further token costs as much as a whole draft.
#[test]
fn they_are_the_costs_that_the_rounds_had() {
    let dir = tempfile::tempdir().unwrap();
    let costs = written(&long_completions().rows(), dir.path());
    for (rows, ms) in [(1.0, 3.6), (3.0, 4.24), (5.0, 4.88)] {
        close(costs.target(rows, 1000.0, 1), ms);
    }
    close(costs.draft(1000.0, 1), 0.42);
    // Verification has no noise, and drafting outside passes takes half a microsecond.
    for (rows, ms) in [(1.0, 0.08), (3.0, 0.17), (5.0, 0.26)] {
        close(costs.outside(rows, 1000.0, 1), ms);
    }
}

/// Catches: a run whose drafts all have one length gives no cost, so that no tape can be forecast
/// with it; the cost is that of a whole draft.
#[test]
fn drafts_of_one_length_have_the_mean_cost_of_their_passes() {
    for k in [1, 3] {
        let one = Synthetic { draft_lengths: vec![k], ..long_completions() };
        let dir = tempfile::tempdir().unwrap();
        close(written(&one.rows(), dir.path()).draft(1000.0, 1), 0.42);
    }
}

/// Interrupts the last round of the last completion of a cell. The cost of passes with its number
/// of rows must be the mean of their times at every context. A line through the contexts would be
/// below zero for short ones, which readers of costs refuse.
fn interrupted(cell: &str, proposed: usize) {
    let mut rows = long_completions().rows();
    let last = rows.rounds.iter_mut().rfind(|round| round.cell == cell).unwrap();
    assert!(proposed == 0 || last.proposed != proposed, "a rare draft");
    // The mean of thousands of passes becomes tens of times as long.
    let more = 1e5 * last.target_us;
    last.target_us += more;
    let own = rows.generations.iter_mut().find(|g| g.cell == last.cell && g.prompt == last.prompt);
    own.unwrap().decode_us += more;
    let drafts = |round: &&RoundRow| round.cell.starts_with("none-") == (proposed == 0);
    let same = rows.rounds.iter().filter(drafts).filter(|round| round.proposed == proposed);
    let times = same.map(|round| round.target_us).collect::<Vec<_>>();
    let mean_ms = times.iter().sum::<f64>() / times.len() as f64 / 1000.0;
    let dir = tempfile::tempdir().unwrap();
    let costs = written(&rows, dir.path());
    for context in [30.0, 1000.0, 2000.0] {
        // Both are sums of the same numbers, in another order.
        let found = costs.target((proposed + 1) as f64, context, 1);
        assert!((found / mean_ms - 1.0).abs() < 1e-9, "{found} after {context}, not {mean_ms}");
    }
}

/// Catches: a pass may take no time; the line through the contexts stays although it falls below
/// zero.
#[test]
fn an_interrupted_pass_leaves_a_pass_its_mean_time() {
    interrupted("none-0-1", 0);
}

/// Catches: rare drafts pull at the means of others.
#[test]
fn an_interrupted_rare_draft_leaves_others_their_mean_time() {
    interrupted("model-4-1", 2);
    interrupted("model-4-1", 4);
}

/// Catches: a drafter without rounds costs nothing.
#[test]
fn a_drafter_that_the_run_lacks_has_no_costs() {
    let dir = tempfile::tempdir().unwrap();
    simulated().write(dir.path());
    let error = write_costs(dir.path(), "ngram").unwrap_err().to_string();
    assert!(error.ends_with("has no rounds of ngram whose times count"), "{error}");
}

/// Catches: long prompts take less time; the line goes through another prompt's length.
#[test]
fn prompts_take_the_time_of_the_line_through_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut rows = simulated();
    // Prompts of 30, 40, … tokens: 1 ms and 0.05 ms per token.
    let longer = |prompt: &str| 10 * prompt[7..].parse::<usize>().unwrap();
    for round in &mut rows.rounds {
        round.context_tokens += longer(&round.prompt);
    }
    for generation in &mut rows.generations {
        generation.prompt_tokens += longer(&generation.prompt);
        generation.prefill_us = 1000.0 + 50.0 * generation.prompt_tokens as f64;
    }
    let costs = written(&rows, dir.path());
    for (tokens, ms) in [(30.0, 2.5), (90.0, 5.5), (140.0, 8.0)] {
        assert!((costs.prefill(tokens, 1.0).unwrap() / ms - 1.0).abs() < 1e-9);
    }
}
