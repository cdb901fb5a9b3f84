//! What other tools would have printed: their definitions, applied to the same
//! rows, so that numbers can be compared across projects. The definitions are in
//! `docs/metrics.md`.

use super::results::Results;
use super::series::Series;
use super::tables::{markdown, number};
use crate::experiment::Cell;
use crate::rows::SummaryRow;
use crate::statistics::{Acceptance, Sample, rounds, timed};

/// Two tables: single numbers of all cells, and acceptance by position of the
/// longest drafts.
pub(super) fn section(results: &Results, series: &[Series<'_>], summary: &[SummaryRow]) -> String {
    let head = [
        "method",
        "sampling",
        "class",
        "K:",
        "vLLM mean acceptance length:",
        "vLLM draft acceptance rate:",
        "Spec-Setup τ:",
        "Spec-Setup speedup:",
        "SGLang accept length:",
        "gpt-fast mean accepted:",
        "Leviathan E[tokens]:",
        "Leviathan walltime factor:",
    ];
    let mut table = Vec::new();
    let mut by_position = Vec::new();
    for series in series {
        for cell in &series.cells {
            let row = summary.iter().find(|row| row.cell == cell.id);
            table.push([series.line(cell), numbers(results, cell, row)].concat());
        }
        if let Some(cell) = series.longest(results) {
            let shares =
                per_position(results.samples(&cell.id), cell.method.num_speculative_tokens);
            let shares = shares.into_iter().map(|s| number(Some(s), 3)).collect::<Vec<_>>();
            let mut line = series.line(cell);
            line.push(shares.join(" / "));
            by_position.push(line);
        }
    }
    let position_head = ["method", "sampling", "class", "K:", "vLLM acceptance per position"];
    format!("{}\n{}", markdown(&head, &table), markdown(&position_head, &by_position))
}

fn numbers(results: &Results, cell: &Cell, row: Option<&SummaryRow>) -> Vec<String> {
    let samples = results.samples(&cell.id);
    let all = Acceptance::of(rounds(samples));
    // vLLM counts steps with a draft only.
    let drafted = Acceptance::of(rounds(samples).filter(|r| r.proposed > 0));
    let emitted = rounds(samples).map(|r| r.emitted).sum::<usize>();
    let per_pass = (all.rounds > 0).then(|| emitted as f64 / all.rounds as f64);
    let tokens =
        all.alpha().map(|alpha| expected_tokens(alpha, cell.method.num_speculative_tokens));
    let walltime = tokens.zip(row.and_then(|row| row.cost_ratio));
    let walltime = walltime.map(|(t, c)| t / (cell.method.num_speculative_tokens as f64 * c + 1.0));
    [
        drafted.block_efficiency(),
        all.acceptance_rate(),
        per_pass,
        spec_bench_speedup(results.baseline(cell), samples),
        per_pass,
        all.block_efficiency().map(|tau| tau - 1.0),
        tokens,
        walltime,
    ]
    .into_iter()
    .map(|value| number(value, 3))
    .collect()
}

/// (1 − α^(K+1)) / (1 − α): expected tokens per round if acceptances were
/// independent and alike (Leviathan et al. 2023, equation 1).
fn expected_tokens(alpha: f64, k: usize) -> f64 {
    (0..=k).map(|i| alpha.powi(i as i32)).sum()
}

/// Mean over generations of tokens per second, prefill included, divided by the
/// same of the baseline.
fn spec_bench_speedup(baseline: &[Sample], samples: &[Sample]) -> Option<f64> {
    let mean_rate = |samples: &[Sample]| {
        let rates = timed(samples).map(|Sample { generation: g, .. }| {
            g.new_tokens as f64 * 1e6 / (g.prefill_us + g.decode_us)
        });
        rates.sum::<f64>() / timed(samples).count() as f64
    };
    Some(mean_rate(samples) / mean_rate(baseline)).filter(|x| x.is_finite())
}

/// By position i: the share of drafted steps that accepted at least i tokens.
fn per_position(samples: &[Sample], k: usize) -> Vec<f64> {
    let drafted = rounds(samples).filter(|r| r.proposed > 0).collect::<Vec<_>>();
    let share = |i: usize| {
        drafted.iter().filter(|r| r.accepted >= i).count() as f64 / drafted.len().max(1) as f64
    };
    (1..=k).map(share).collect()
}
