//! Numbers of the report, compared with what was put into the run.

use std::fs;
use std::sync::atomic::AtomicBool;

use specdec::checkpoint::load as load_model;
use specdec::measure::rows::{GenerationRow, PassCost, PositionRow, Recalibration, SummaryRow};
use specdec::model::Role;
use specdec::run::experiment::{Manifest, read_plan};
use specdec::run::report::{load, report};

use crate::experiment_support::{rows, run_smoke};
use crate::figures::imitate;
use crate::report::{reported, summary, written};
use crate::report_verdicts::{line, stretch};
use crate::synthetic::{Rows, Synthetic};

/// The cells of a row of a table.
fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

fn with_prompts(prompts: usize) -> Synthetic {
    Synthetic { prompts, temperatures: vec![1.0], ..Synthetic::tiny() }
}

fn summaries(rows: &Rows) -> Vec<SummaryRow> {
    summary(&load(written(rows).path()).unwrap())
}

/// A policy that reads the clock drafts other tokens in a batch, where passes take longer.
/// Catches: no completion of a batch is other than alone.
#[test]
fn completions_other_than_alone_are_counted() {
    let out = tempfile::tempdir().unwrap();
    let target = load_model("toy:mixed", Role::Target).unwrap().model;
    let set = [
        "sweep={batch=[1, 3], drafter=\"model\", length=\"ucb\", num_speculative_tokens=6}",
        "max_tokens=24",
        "repeats=3",
    ];
    let prompts = ["a", "ab", "ba", "cab", "dd", "acb"];
    let folder = run_smoke(&*target, &prompts, &set, &AtomicBool::new(false), out.path());
    let plan = read_plan(&folder).unwrap();
    let texts = |batch: usize| {
        let mut cells = plan.cells.iter().filter(|cell| cell.method.drafter == "model");
        let id = &cells.find(|cell| cell.batch == batch).unwrap().id;
        let all = rows::<GenerationRow>(&folder, "generations.csv").into_iter();
        let mut own = all.filter(|row| row.cell == *id).collect::<Vec<_>>();
        own.sort_by_key(|row| (row.prompt.clone(), row.repeat));
        own.into_iter().map(|row| row.text_sha256).collect::<Vec<_>>()
    };
    let differ = texts(1).into_iter().zip(texts(3)).filter(|(alone, own)| alone != own).count();
    assert!(differ > 0, "no completion depends on the batch");
    report(&folder).unwrap();
    let text = fs::read_to_string(folder.join("report.md")).unwrap();
    let section = text.split("\n## ").find(|section| section.starts_with("Batches")).unwrap();
    let others = section.lines().filter(|line| line.contains("batch = 3"));
    let others = others.map(|line| cells(line)[9].to_owned()).collect::<Vec<_>>();
    assert_eq!(others, ["0 of 18".to_owned(), format!("{differ} of 18")], "plain decoding and ucb");
}

/// Catches: the largest gap is the most positive one; an end of the interval is ignored.
#[test]
fn the_largest_gap_is_the_one_farthest_from_zero() {
    let mut rows = with_prompts(8).rows();
    // Drafting was calibrated as slightly too fast for K = 1, and as far too slow for K = 3.
    for (cell, factor) in [("model-1-1", 0.8), ("model-3-1", 4.0)] {
        let costs = rows.calibration.cells.get_mut(cell).unwrap();
        costs.draft_us_per_token = costs.draft_us_per_token.map(|us| us * factor);
    }
    for (plain, sign) in [(1.0, 1.0), (2.0, -1.0)] {
        // Plain decoding that was calibrated as too slow makes every speedup too large.
        rows.calibration.passes[0].us *= plain;
        let found = summaries(&rows);
        let row = |cell: &str| found.iter().find(|row| row.cell == cell).unwrap();
        let both = ["model-1-1", "model-3-1"].map(row);
        let gaps = both.map(|row| row.speedup.unwrap() / row.calibrated_speedup.unwrap() - 1.0);
        let largest = if gaps[0].abs() > gaps[1].abs() { gaps[0] } else { gaps[1] };
        assert!(largest * sign > 0.3, "{gaps:?}");
        let inside = both.iter().filter(|row| {
            let ends = row.speedup_lo.unwrap()..=row.speedup_hi.unwrap();
            ends.contains(&row.calibrated_speedup.unwrap())
        });
        let (_folder, text) = reported(&rows);
        let shown = cells(line(&text, "## Calibrated and measured", "| model |"));
        let middle = format!("{:.1} %", 50.0 * (gaps[0].abs() + gaps[1].abs()));
        let largest = format!("{:+.1} %", 100.0 * largest);
        let inside = format!("{} of 2", inside.count());
        assert_eq!(shown[3..], ["2", &middle, &largest, &inside], "{gaps:?}");
    }
}

/// Catches: the speed of rejection ÷ that of the cell; the ratio of τ likewise.
#[test]
fn verifiers_are_compared_with_rejection_in_its_direction() {
    let run = Synthetic { draft_lengths: vec![3], ..with_prompts(10) };
    let mut rows = imitate(2, run, |i, cell| {
        cell.point.method.drafter = "model".to_owned();
        cell.point.method.verifier = ["rejection", "traversal"][i].to_owned();
    });
    // Those of the second verifier take longer than those of the first.
    for prompt in rows.plan.prompts.clone() {
        stretch(&mut rows, "b-3-1", &prompt, 1.5);
    }
    let found = summaries(&rows);
    let row = |cell: &str| found.iter().find(|row| row.cell == cell).unwrap();
    let ratio = |of: fn(&SummaryRow) -> f64| of(row("b-3-1")) / of(row("a-3-1"));
    let (tau, speed) =
        (ratio(|row| row.block_efficiency.unwrap()), ratio(|row| row.tokens_per_second.unwrap()));
    assert!(speed < 0.9, "{speed}");
    let (_folder, text) = reported(&rows);
    let line = cells(line(&text, "## Against rejection sampling", "| model + traversal |"));
    for (shown, expected) in line[4..].iter().zip([tau, speed]) {
        assert!(shown.starts_with(&format!("{expected:.3} [")), "{shown} is not {expected}");
    }
}

/// Catches: the ratio of two runs of a cell is upside down.
#[test]
fn a_control_shows_the_first_run_over_the_second() {
    let mut rows = with_prompts(8).rows();
    rows.repeat("model-3-1", 1.25);
    let (_folder, text) = reported(&rows);
    assert_eq!(cells(line(&text, "## The same cell twice", "| model"))[1], "0.800");
}

/// Catches: the time of a round is that of the calibration ÷ the measured one.
#[test]
fn a_wrong_calibration_is_shown_with_its_factor() {
    let mut rows = with_prompts(8).rows();
    rows.calibration.passes.iter_mut().for_each(|pass| pass.us /= 4.0);
    for costs in rows.calibration.cells.values_mut() {
        costs.draft_us_per_token = costs.draft_us_per_token.map(|us| us / 4.0);
        (costs.verify_us, costs.other_us) = (costs.verify_us / 4.0, costs.other_us / 4.0);
    }
    let (_folder, text) = reported(&rows);
    // Noise of 1.5 %, whose mean over a cell's rounds is below 0.5 %.
    let said = text.split("In 5 of 5 cells a round took").nth(1).unwrap();
    let factor = said.split(": ").nth(1).unwrap().split(' ').next().unwrap();
    assert!((factor.parse::<f64>().unwrap() - 4.0).abs() < 0.025, "{factor}");
}

/// Catches: the times before the sweep ÷ the later ones.
#[test]
fn the_drift_of_passes_is_over_the_first_calibration() {
    let rows = Synthetic::large().rows();
    let folder = written(&rows);
    let mut manifest = Manifest::read(folder.path()).unwrap();
    let again = |us| {
        let pass = PassCost { rows: 1, us, ..PassCost::default() };
        Recalibration { block: 8, passes: vec![pass] }
    };
    manifest.sessions[0].recalibrations = vec![again(0.8 * 3600.0), again(1.5 * 3600.0)];
    manifest.write(folder.path()).unwrap();
    report(folder.path()).unwrap();
    let text = fs::read_to_string(folder.path().join("report.md")).unwrap();
    assert!(
        text.contains("In 2 calibrations between blocks, T(1) was 0.80 to 1.50 times"),
        "{text}"
    );
}

/// Catches: accepted and rejected tokens are exchanged; deciles begin at their upper ends.
#[test]
fn acceptance_by_entropy_is_that_of_each_tenth() {
    let mut rows = with_prompts(8).rows();
    rows.trace();
    // The verifier rejects exactly where the target is least certain.
    let unsure = |row: &mut PositionRow| row.p_entropy += if row.accepted { 0.0 } else { 1.0 };
    rows.positions.iter_mut().for_each(unsure);
    let own = rows.rounds.iter().filter(|round| round.cell == "model-3-1");
    let (accepted, reached) = own.fold((0, 0), |sum, r| (sum.0 + r.accepted, sum.1 + r.reached));
    let (_folder, text) = reported(&rows);
    let shown = cells(line(&text, "## Acceptance by the target's entropy", "| model |"));
    assert_eq!(shown[4], reached.to_string());
    let tenths = shown[6..].iter().map(|share| share.parse::<f64>().unwrap()).collect::<Vec<_>>();
    let whole = 10 * accepted / reached;
    assert!(tenths[..whole].iter().all(|share| *share == 1.0), "{tenths:?}");
    assert!(tenths[whole + 1..].iter().all(|share| *share == 0.0) && whole < 9, "{tenths:?}");
    // The tenths have the same number of tokens, up to one.
    let mean = tenths.iter().sum::<f64>() / 10.0;
    assert!((mean - accepted as f64 / reached as f64).abs() < 0.01, "{tenths:?}");
}

/// Catches: prompts that are faster count as below 1; cells that are slower do not count.
#[test]
fn prompts_and_cells_that_lose_are_counted() {
    let mut rows = with_prompts(8).rows();
    // Both lengths of one drafter lose everywhere, those of the other with three of eight prompts.
    for (at, prompt) in rows.plan.prompts.clone().iter().enumerate() {
        for cell in ["prompt_lookup-1-1", "prompt_lookup-3-1"] {
            stretch(&mut rows, cell, prompt, 9.0);
        }
        for cell in ["model-1-1", "model-3-1"] {
            stretch(&mut rows, cell, prompt, if at % 3 == 1 { 4.0 } else { 0.5 });
        }
    }
    let (_folder, text) = reported(&rows);
    let spread = |drafter: &str| {
        let own = cells(line(&text, "## Spread over prompts", &format!("| {drafter} |")));
        (own[4].to_owned(), own[10].to_owned())
    };
    assert_eq!(spread("model"), ("8".to_owned(), "3".to_owned()));
    assert_eq!(spread("prompt_lookup"), ("8".to_owned(), "8".to_owned()));
    assert!(text.contains("- 2 of 4 cells are slower than plain decoding."), "{text}");
}

/// Catches: the terminal shows another measure as the acceptance.
#[test]
fn the_terminal_shows_the_acceptance_rate_of_the_best_k() {
    let rows = with_prompts(8).rows();
    let brief = report(written(&rows).path()).unwrap().0.text(120);
    let shown = brief.lines().find(|line| line.starts_with("model ")).unwrap();
    let best = summaries(&rows).into_iter().filter(|row| row.drafter == "model");
    let best = best.max_by(|a, b| a.speedup.unwrap().total_cmp(&b.speedup.unwrap())).unwrap();
    let rate = format!(" {:.3} ", best.acceptance_rate.unwrap());
    assert!(shown.contains(&rate) && best.acceptance_rate != best.alpha, "{shown} without {rate}");
}
