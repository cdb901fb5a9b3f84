//! Computes the rows of `summary.csv` and `survival.csv` from the samples of a run.

use super::loops::{loop_free, pairs_of};
use super::run::{CellView, Run};
use super::tables::ends;
use crate::measure::rows::Calibration;
use crate::measure::rows::{BeamRow, SummaryRow, SurvivalRow};
use crate::measure::statistics::{
    Costs, Interval, RoundProgress, Sample, Survival, acceptance, alpha, block_efficiency,
    branches, by_prompt, calibrated_speedup, forwards_per_token, loop_share, ms_per_token,
    pair_by_prompt, passes_per_row, rounds, speedup, speedup_interval, survival_intervals,
    survival_ratios, texts_at_once, timed, times, tokens_per_second, tv,
};

/// The status of a cell that a part of a run has no block of.
pub(super) const ELSEWHERE: &str = "in other parts";

/// One row per cell, in the order of the plan.
pub(super) fn summary(run: &Run) -> Vec<SummaryRow> {
    let calibration = run.session().costs();
    run.cells.iter().map(|cell| row(run, cell, &calibration)).collect()
}

fn row(run: &Run, cell: &CellView, calibration: &Calibration) -> SummaryRow {
    let (mut row, samples, baseline) = (identity(run, cell), &cell.samples, run.baseline(cell));
    row.baseline_forwards_per_token = forwards_per_token(baseline);
    row.baseline_loop_share = loop_share(baseline);
    row.tokens_per_second = tokens_per_second(samples);
    row.texts_at_once = texts_at_once(samples);
    row.ms_per_token = ms_per_token(samples);
    beams(&mut row, samples);
    if cell.is_baseline() {
        row.baseline_tokens_per_second = row.tokens_per_second;
        return row;
    }
    accept(&mut row, samples);
    compare(&mut row, run, cell);
    row.predicted_speedup = cell.held_out.map(|found| found.predicted);
    // The calibration times passes of one sequence.
    if cell.batch == 1 {
        costs(&mut row, calibration, cell);
        row.calibrated_speedup = calibrated(run, calibration, cell);
    }
    row
}

/// The columns that identify a cell, its status and its counts.
fn identity(run: &Run, cell: &CellView) -> SummaryRow {
    let (plan, samples, failures) = (&run.plan, &cell.samples, &cell.failures);
    let expected = match run.is_whole_part() {
        true => 1,
        false => plan.prompts_of(cell) * plan.repeats as usize,
    };
    let status = match samples.len() {
        n if n >= expected && failures.is_empty() => "finished",
        0 if failures.is_empty() && run.is_whole_part() => ELSEWHERE,
        0 if failures.is_empty() => "not run",
        0 => "failed",
        _ => "partial",
    };
    let reason = failures.first().map_or_else(String::new, |first| match failures.len() {
        1 => format!("{} ({})", first.reason, first.prompt),
        n => format!("{} ({}, and {} more)", first.reason, first.prompt, n - 1),
    });
    let drafted = samples.iter().any(|s| s.draft_forwards > 0);
    let uses_draft_model = drafted || cell.method.needs_draft_model();
    let draft = plan.draft.as_ref().filter(|_| uses_draft_model);
    SummaryRow {
        cell: cell.id.clone(),
        target: plan.target.name.clone(),
        draft: draft.map_or_else(String::new, |d| d.name.clone()),
        drafter: cell.method.drafter.clone(),
        verifier: cell.method.verifier.clone(),
        length: cell.method.length.clone(),
        num_speculative_tokens: (cell.method.num_speculative_tokens > 0)
            .then_some(cell.method.num_speculative_tokens),
        sampling: cell.method.sampling.columns(),
        strategy: cell.strategy().to_owned(),
        num_beams: cell.beam.map(|beam| beam.num_beams),
        length_penalty: cell.beam.map(|beam| beam.length_penalty),
        early_stopping: cell.beam.map(|beam| beam.early_stopping),
        num_beam_groups: cell.beam.map(|beam| beam.num_beam_groups),
        diversity_penalty: cell.beam.map(|beam| beam.diversity_penalty),
        batch: cell.batch,
        params: settings(cell),
        control: cell.control,
        engine: plan.target.engine.clone(),
        dtype: plan.target.dtype.clone(),
        draft_dtype: draft.map_or_else(String::new, |d| d.dtype.clone()),
        threads: run.session().threads,
        max_tokens: plan.max_tokens,
        seed: plan.seed,
        class: cell.class.clone(),
        status: status.to_owned(),
        reason,
        generations: samples.len(),
        tokens: samples.iter().map(|s| s.new_tokens).sum(),
        behind_end_share: run.behind_end_share(samples),
        loop_share: loop_share(samples),
        passes_per_token: forwards_per_token(samples),
        rounds: samples.iter().map(|s| s.rounds.len()).sum(),
        ..SummaryRow::default()
    }
}

/// The settings of a cell's methods, and the arguments of its chat template.
fn settings(cell: &CellView) -> String {
    let own = cell.method.params.iter().map(|(key, value)| format!("{key}={value}"));
    let chat = cell.chat_arguments.words().map(|(key, value)| format!("{key}={value}"));
    own.chain(chat).collect::<Vec<_>>().join(";")
}

/// Means over the completions that beam searches found; nothing for those that were drawn.
fn beams(row: &mut SummaryRow, samples: &[Sample]) {
    let Some(passes) = passes_per_row(samples) else { return };
    row.passes_per_row = passes.value();
    (row.passes_per_row_lo, row.passes_per_row_hi) = ends(passes.interval());
    let mean = |of: fn(&BeamRow) -> f64| {
        let found = samples.iter().filter_map(|sample| sample.beam.as_deref()).map(of);
        Some(found.sum::<f64>() / samples.len() as f64)
    };
    row.log_prob = mean(|beam| beam.log_prob);
    row.score = mean(|beam| beam.score);
}

fn accept(row: &mut SummaryRow, samples: &[Sample]) {
    let sums = acceptance(samples);
    row.acceptance_rate = sums.acceptance_rate();
    row.alpha = sums.alpha();
    (row.alpha_lo, row.alpha_hi) = ends(alpha(samples).and_then(|alpha| alpha.interval()));
    row.ceiling = sums.ceiling();
    row.share_of_ceiling = sums.share_of_ceiling();
    row.block_efficiency = sums.block_efficiency();
    (row.block_efficiency_lo, row.block_efficiency_hi) = ends(block_efficiency(samples).interval());
    row.tv = sums.tv();
    (row.tv_lo, row.tv_hi) = ends(tv(samples).and_then(|tv| tv.interval()));
}

/// c = t_draft / t_target, and T(n+1) / T(1) for the largest number n of tokens proposed in
/// a round (K for a chain). A drafter that runs no model has no calibrated cost: its cost per
/// drafted token is measured from the rounds.
fn costs(row: &mut SummaryRow, calibration: &Calibration, cell: &CellView) {
    let samples = &cell.samples;
    let single = calibration.target_us(1).filter(|us| *us > 0.0);
    let forwards = samples.iter().map(|s| s.draft_forwards).sum::<usize>();
    let draft_us = if forwards > 0 {
        calibration.cells.get(&cell.id).and_then(|c| c.draft_us_per_token)
    } else {
        let proposed = acceptance(timed(samples)).proposed;
        (proposed > 0).then(|| times(timed(samples)).draft / proposed as f64)
    };
    let per_pass = |us: Option<f64>| Some(us? / single?);
    row.cost_ratio = per_pass(draft_us);
    let most = rounds(samples).map(|r| r.proposed).max();
    row.verify_cost_ratio =
        per_pass(calibration.target_us(most.unwrap_or(cell.method.num_speculative_tokens) + 1));
}

fn compare(row: &mut SummaryRow, run: &Run, cell: &CellView) {
    let pairs = pair_by_prompt(run.baseline(cell), &cell.samples);
    let (us, tokens) = pairs
        .values()
        .fold((0.0, 0), |(us, tokens), pair| (us + pair.plain_us, tokens + pair.plain_tokens));
    row.baseline_tokens_per_second = (us > 0.0).then(|| tokens as f64 * 1e6 / us);
    row.speedup = speedup(pairs.values());
    (row.speedup_lo, row.speedup_hi) = ends(speedup_interval(&pairs));
    let pairs = pairs_of(run, cell, loop_free(run, cell));
    row.loop_free_speedup = speedup(pairs.values());
    (row.loop_free_speedup_lo, row.loop_free_speedup_hi) = ends(speedup_interval(&pairs));
}

fn calibrated(run: &Run, calibration: &Calibration, cell: &CellView) -> Option<f64> {
    let series = run.series_of(cell)?;
    if run.plan.warmup == 0 {
        return None; // Without warm-up, no round was timed before the sweep.
    }
    let costs = *calibration.cells.get(&cell.id)?;
    // Plain decoding has its own overhead: it samples one row instead of K + 1.
    let plain = calibration.cells.get(&run.cells[cell.baseline?].id)?;
    let costs = Costs {
        passes: calibration,
        plain_us: calibration.target_us(1)? + plain.outside_target(0)?,
        cell: costs,
    };
    // A fixed chain is a prefix of a longer one, so the longest cell of the series predicts
    // all of them; rounds of trees and of length policies are known only from the cell itself.
    let own_rounds = branches(&cell.samples) || cell.method.length != FIXED;
    let longest = if own_rounds { cell } else { series.longest()? };
    let own = by_prompt(&cell.samples);
    let others = by_prompt(&longest.samples);
    // A policy may draft deeper than its initial K.
    let deepest = rounds(&longest.samples).map(|r| r.depth).max()?;
    let k = longest.method.num_speculative_tokens.max(deepest);
    let wanted = if own_rounds { k } else { cell.method.num_speculative_tokens };
    let max_tokens = run.plan.max_tokens;
    let all = RoundProgress::of(&longest.samples, k, max_tokens);
    let folds = own
        .iter()
        .map(|(prompt, samples)| {
            let held_out = others.get(prompt).into_iter().flatten().copied();
            let progress = all.clone().without(&RoundProgress::of(held_out, k, max_tokens));
            (samples.iter().map(|s| s.new_tokens).sum(), progress)
        })
        .collect::<Vec<_>>();
    calibrated_speedup(&folds, wanted, &costs)
}

/// The policy under which every draft has K tokens.
const FIXED: &str = "fixed";

/// One row per position that drafts of a cell reached. Where there is no interval, because too few
/// prompts reached the position or no draft survived, it is the whole range 0 to 1.
pub(super) fn survival(cell: &CellView) -> Vec<SurvivalRow> {
    let counts = Survival::of(rounds(&cell.samples));
    let bounds = survival_intervals(&survival_ratios(&cell.samples));
    let positions = counts.curve().into_iter().zip(bounds).zip(1..);
    let row = |((survival, interval), position): ((f64, Interval), usize)| SurvivalRow {
        cell: cell.id.clone(),
        position,
        reached: counts.reached(position),
        survived: counts.survived(position),
        conditional: counts.conditional(position).unwrap_or(0.0),
        survival,
        lo: interval.lo,
        hi: interval.hi,
    };
    positions.map(row).collect()
}
