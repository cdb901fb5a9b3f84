//! The statistics of a run: pure functions over its rows, as defined in
//! `docs/metrics.md`. Nothing here reads a file or a clock.
//!
//! The sampling unit is the **prompt**: rounds of one generation resemble each other, so
//! every interval is taken over prompts, never over rounds.

mod acceptance;
mod interval;
mod outliers;
mod paired;
mod predict;
mod quantile;
mod resamples;
mod speedup;

use std::collections::BTreeMap;

use crate::rows::{GenerationRow, RoundRow};

pub use acceptance::{
    Acceptance, Survival, alpha, block_efficiency, block_efficiency_ratio, share_of_ceiling,
    survival_ratios, tv,
};
pub use interval::{Interval, MIN_PROMPTS, Ratio, student};
pub use outliers::{Outlier, Side, outliers};
pub use paired::{LEVEL, SignFlip, against_tuned, flips, holm, log_ratios, sign_flip, sign_flips};
pub use predict::{Costs, RoundProgress, expected_tokens, predicted_speedup};
pub use quantile::{deciles, median, quantile};
pub use resamples::{RESAMPLES, SEED};
pub use speedup::{
    Contest, PairedTime, Verdicts, pair_by_prompt, speedup, speedup_interval, speedup_ratio,
};

/// One finished generation that counts: its row and its rounds, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The generation.
    pub generation: GenerationRow,
    /// Its rounds.
    pub rounds: Vec<RoundRow>,
    /// Whether its times count: they are undisturbed, and come from the same build,
    /// processor and number of threads as all others that count.
    pub timed: bool,
}

/// The samples of one cell by prompt, in the order of the prompts' names, which
/// does not depend on the order of execution.
pub fn by_prompt(samples: &[Sample]) -> BTreeMap<&str, Vec<&Sample>> {
    let mut prompts = BTreeMap::<&str, Vec<&Sample>>::new();
    for sample in samples {
        prompts.entry(sample.generation.prompt.as_str()).or_default().push(sample);
    }
    prompts
}

/// The samples whose times count.
pub fn timed(samples: &[Sample]) -> impl Iterator<Item = &Sample> {
    samples.iter().filter(|sample| sample.timed)
}

/// All rounds of some samples.
pub fn rounds<'a>(
    samples: impl IntoIterator<Item = &'a Sample>,
) -> impl Iterator<Item = &'a RoundRow> {
    samples.into_iter().flat_map(|sample| &sample.rounds)
}

/// Whether any draft was a tree and not a chain.
pub fn branches(samples: &[Sample]) -> bool {
    rounds(samples).any(|round| round.proposed > round.depth)
}

/// Target passes per new token over all samples; plain decoding must be at
/// exactly 1, or the baseline is handicapped. `None` without tokens.
pub fn forwards_per_token(samples: &[Sample]) -> Option<f64> {
    let forwards = samples.iter().map(|s| s.generation.target_forwards).sum::<usize>();
    ratio(forwards as f64, samples.iter().map(|s| s.generation.new_tokens).sum::<usize>() as f64)
}

/// New tokens per second of decoding, without prefill. `None` without time.
pub fn tokens_per_second<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Option<f64> {
    let (mut tokens, mut us) = (0.0, 0.0);
    for sample in samples.into_iter().filter(|sample| sample.timed) {
        tokens += sample.generation.new_tokens as f64;
        us += sample.generation.decode_us;
    }
    ratio(tokens * 1e6, us)
}

/// `numerator / denominator`, or `None` if the quotient is not finite or the denominator
/// is not positive.
fn ratio(numerator: f64, denominator: f64) -> Option<f64> {
    Some(numerator / denominator).filter(|x| x.is_finite() && denominator > 0.0)
}
