//! The statistics of a run: pure functions over its rows, as defined in
//! `docs/metrics.md`. Nothing here reads a file or a clock.
//!
//! The sampling unit is the **prompt**: rounds of one generation resemble each other, so
//! every interval is taken over prompts, never over rounds.

mod acceptance;
mod axis_contrast;
mod between_machines;
mod between_runs;
mod by_place;
mod cost_model;
mod held_out;
mod interval;
mod least_squares;
mod loops;
mod outliers;
mod paired;
mod part_cost;
mod predict;
mod quantile;
mod randomised;
mod ratios;
mod resamples;
mod round_cost;
mod rounds;
mod row_sums;
mod sample;
mod speedup;
mod survival;
mod time_sums;

pub use acceptance::Acceptance;
pub use axis_contrast::{AxisContrast, AxisPoint, axis_contrasts};
pub use between_machines::{BetweenMachines, ExpectedRatio, MIN_MACHINES, random_effects};
pub use between_runs::{
    CellOfRun, Contrast, ContrastFinding, Measure, PairedPrompts, Pairing, PromptInRuns,
    PromptWork, contrasts, pair_runs,
};
pub use by_place::{
    PlacedRounds, distances, placed, range_name, ranges, thinking_efficiency, thinking_rounds,
};
pub use cost_model::{CostKeys, CostModel};
pub use held_out::{HeldOutCell, HeldOutSpeedup, halves, held_out};
pub use interval::{Interval, MIN_PROMPTS, Ratio, WIDE_Z, Z, student};
pub(crate) use least_squares::NormalEquations;
pub use loops::{MOST_LOOPED, loop_share, looped_tokens};
pub use outliers::{Outlier, Side, outliers};
pub use paired::{
    LEVEL, SignFlip, against_tuned, flips, holm, log_ratios, sign_flip, sign_flip_tests, sign_flips,
};
pub use part_cost::PartCost;
pub use predict::{Costs, RoundProgress, calibrated_speedup, expected_tokens};
pub use quantile::{deciles, median, quantile};
pub use randomised::{MOST_EXACT, Randomised, randomised};
pub use ratios::{alpha, block_efficiency, block_efficiency_ratio, passes_per_row, tv};
pub use resamples::{RESAMPLES, SEED};
pub use round_cost::RoundCost;
pub use rounds::{CountedRound, Rounds};
pub use row_sums::{RowSums, add_rows};
pub use sample::{
    Sample, acceptance, behind_end_share, branches, by_prompt, forwards_per_token, ms_per_token,
    rounds, texts_at_once, timed, times, tokens_per_second,
};
pub use speedup::{
    Contest, PairedTime, Verdicts, pair_by_prompt, pair_samples, speedup, speedup_interval,
    speedup_ratio,
};
pub use survival::{Survival, survival_intervals, survival_ratios};
pub use time_sums::TimeSums;

/// `numerator / denominator`, or `None` if the quotient is not finite or the denominator
/// is not positive.
fn ratio(numerator: f64, denominator: f64) -> Option<f64> {
    Some(numerator / denominator).filter(|x| x.is_finite() && denominator > 0.0)
}
