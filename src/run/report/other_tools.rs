//! The metrics of other tools, computed from the same rows by their definitions, so that
//! numbers can be compared across projects. `docs/metrics.md` has the definitions.

use super::document::{DocBlock, TableCell};
use super::run::{CellView, Run};
use super::tables::{columns, lines, number};
use crate::measure::statistics::{Sample, acceptance, expected_tokens, rounds, timed};

/// The section with two tables: the metrics of every cell, and acceptance by position for the
/// longest draft length of every series. Empty if every series is a beam search.
pub(super) fn section(run: &Run) -> Vec<DocBlock> {
    let head = columns(&[
        "vLLM mean acceptance length:",
        "vLLM draft acceptance rate:",
        "Spec-Bench τ:",
        "Spec-Bench speedup:",
        "SGLang accept length:",
        "gpt-fast mean accepted:",
        "Leviathan E[tokens]:",
        "Leviathan walltime factor:",
    ]);
    // Their terms are those of rounds, which beam search does not have.
    let drawn = |cell: &&CellView| cell.beam.is_none();
    let table = lines(run.drafted().filter(drawn), |cell| Some(numbers(run, cell)));
    let longest = run.series().filter_map(|series| series.longest()).filter(drawn);
    let by_position = lines(longest, |cell| {
        let shares = per_position(&cell.samples, cell.method.num_speculative_tokens);
        let shares = shares.into_iter().map(|s| number(Some(s), 3).to_string());
        Some(vec![shares.collect::<Vec<_>>().join(" / ").into()])
    });
    let words = "Their definitions, applied to the same rounds; see `docs/metrics.md`.";
    let mut blocks = DocBlock::section("In the terms of other tools", words, &head, table);
    if !blocks.is_empty() {
        let head = columns(&["vLLM acceptance per position"]);
        blocks.push(DocBlock::table(&head, by_position));
    }
    blocks
}

fn numbers(run: &Run, cell: &CellView) -> Vec<TableCell> {
    let samples = &cell.samples;
    let all = acceptance(samples);
    // vLLM counts only steps that have a draft.
    let drafted = rounds(samples).filter(|r| r.proposed > 0).map(|r| r.accepted + 1);
    let (steps, kept) = drafted.fold((0, 0), |(steps, kept), tokens| (steps + 1, kept + tokens));
    let emitted = rounds(samples).map(|r| r.emitted).sum::<usize>();
    let per_pass = (all.rounds > 0).then(|| emitted as f64 / all.rounds as f64);
    let tokens =
        all.alpha().map(|alpha| expected_tokens(alpha, cell.method.num_speculative_tokens));
    let walltime = tokens.zip(cell.row.cost_ratio);
    let walltime = walltime.map(|(t, c)| t / (cell.method.num_speculative_tokens as f64 * c + 1.0));
    [
        (steps > 0).then(|| kept as f64 / f64::from(steps)),
        all.acceptance_rate(),
        per_pass,
        spec_bench_speedup(run.baseline(cell), samples),
        per_pass,
        all.block_efficiency().map(|tau| tau - 1.0),
        tokens,
        walltime,
    ]
    .into_iter()
    .map(|value| number(value, 3))
    .collect()
}

/// Mean over generations of tokens per second, including prefill, divided by the same mean
/// of the baseline.
fn spec_bench_speedup(baseline: &[Sample], samples: &[Sample]) -> Option<f64> {
    let mean_rate = |samples: &[Sample]| {
        let rates = timed(samples)
            .map(|sample| sample.new_tokens as f64 * 1e6 / (sample.prefill_us + sample.decode_us));
        rates.sum::<f64>() / timed(samples).count() as f64
    };
    Some(mean_rate(samples) / mean_rate(baseline)).filter(|x| x.is_finite())
}

/// For each position i from 1 to `k`: the share of steps with a draft that accepted at
/// least i tokens.
fn per_position(samples: &[Sample], k: usize) -> Vec<f64> {
    let drafted = || rounds(samples).filter(|r| r.proposed > 0);
    let all = drafted().count().max(1) as f64;
    (1..=k).map(|i| drafted().filter(|r| r.accepted >= i).count() as f64 / all).collect()
}
