//! The calibrated speedup of a cell, predicted from the costs of the calibration and from survival
//! measured on *other* prompts. It can be wrong; its gap to the measured speedup is a result.
//!
//! For a drafter that always proposes K tokens the prediction is
//!
//! ```text
//! (1 + Σ_{i≤K} S(i)) · t_plain / (K·t_d + T(K+1) + t_v + t_o)
//! ```
//!
//! with t_plain = T(1) + t_v + t_o, where t_v and t_o are the baseline's own. A drafter that
//! sometimes proposes fewer tokens or none (prompt lookup) neither pays for nor gains from tokens
//! that it did not propose. So S(i) becomes the probability that position i is proposed **and**
//! survives, and the cost of a round becomes its expectation over the number of proposed tokens. If
//! all K tokens are always proposed, this is the formula above.

use super::ratio;
use super::sample::Sample;
use crate::measure::rows::{Calibration, CellCosts};

/// (1 − α^(K+1)) / (1 − α): the expected tokens of a round if each drafted token is
/// accepted independently with probability `alpha` (Leviathan et al. 2023, arXiv
/// 2211.17192, equation 1).
pub fn expected_tokens(alpha: f64, k: usize) -> f64 {
    (0..=k).map(|i| alpha.powi(i as i32)).sum()
}

/// Costs of passes and bookkeeping from the calibration, in µs.
#[derive(Debug, Clone, Copy)]
pub struct Costs<'a> {
    /// T(n).
    pub passes: &'a Calibration,
    /// A round of plain decoding: T(1) and its bookkeeping.
    pub plain_us: f64,
    /// t_d, t_v and t_o of the cell.
    pub cell: CellCosts,
}

/// Counts over rounds from which the expected progress of a round follows.
///
/// Near the end of a generation the draft is cut to the number of tokens that may still be emitted.
/// Such rounds are censored, not rejected: they count only for the positions that they were allowed
/// to propose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoundProgress {
    /// By position from 1: rounds that accepted all earlier positions and were allowed to
    /// propose this one.
    entered: Vec<usize>,
    /// By position from 1: the rounds in `entered` that proposed and accepted it.
    survived: Vec<usize>,
    /// By number of proposed tokens: rounds that were allowed to propose all K.
    proposed: Vec<usize>,
}

impl RoundProgress {
    /// Counts the rounds of generations of up to `max_tokens` tokens whose drafts were at most `k`
    /// deep. Some policies draft deeper than their K, so `k` must be the largest depth; otherwise
    /// their best rounds are cut.
    pub fn of<'a>(
        samples: impl IntoIterator<Item = &'a Sample>,
        k: usize,
        max_tokens: usize,
    ) -> Self {
        let mut counts = Self { entered: vec![0; k], survived: vec![0; k], proposed: Vec::new() };
        for sample in samples {
            let mut emitted = 0;
            for round in sample.rounds.iter() {
                let allowed = max_tokens.saturating_sub(emitted + 1).min(k);
                let entered = allowed.min(round.entered());
                for n in &mut counts.entered[..entered] {
                    *n += 1;
                }
                let survived = round.accepted.min(entered);
                for n in &mut counts.survived[..survived] {
                    *n += 1;
                }
                if allowed == k {
                    let proposed = counts.proposed.len().max(round.proposed + 1);
                    counts.proposed.resize(proposed, 0);
                    counts.proposed[round.proposed] += 1;
                }
                emitted += round.emitted;
            }
        }
        counts
    }

    /// The counts minus those of `part`, which they include.
    #[must_use]
    pub fn without(mut self, part: &Self) -> Self {
        let counts = [&mut self.entered, &mut self.survived, &mut self.proposed];
        let parts = [&part.entered, &part.survived, &part.proposed];
        for (all, part) in counts.into_iter().zip(parts) {
            for (all, part) in all.iter_mut().zip(part) {
                *all -= part;
            }
        }
        self
    }

    /// The expected number of accepted tokens per round with draft length `k`: Σ of the
    /// probabilities that position i is proposed and survives. `None` if a position was
    /// never entered.
    pub fn expected_accepted(&self, k: usize) -> Option<f64> {
        let (mut product, mut sum) = (1.0, 0.0);
        for i in 0..k {
            if product > 0.0 {
                product *= ratio(*self.survived.get(i)? as f64, *self.entered.get(i)? as f64)?;
            }
            sum += product;
        }
        Some(sum)
    }

    /// The expectation of `cost(n)` over the number n of proposed tokens with draft
    /// length `k`. If `k` is below the length of the counted drafts, they are taken as
    /// chains cut at `k` tokens. `None` if no round was allowed to propose all tokens or
    /// a cost is unknown.
    pub fn expected_cost(&self, k: usize, cost: impl Fn(usize) -> Option<f64>) -> Option<f64> {
        let most = if k < self.entered.len() { k } else { usize::MAX };
        let mut sum = 0.0;
        for (n, &count) in self.proposed.iter().enumerate().filter(|(_, count)| **count > 0) {
            sum += count as f64 * cost(n.min(most))?;
        }
        ratio(sum, self.proposed.iter().sum::<usize>() as f64)
    }
}

/// The calibrated speedup of draft length `k` from the progress at the longest draft
/// length of the same method, leaving out one prompt at a time: each of `folds` holds a
/// prompt's new tokens in the cell and the progress on all other prompts. Times per token
/// are averaged over the prompts, weighted by tokens. `None` if a cost or the progress is
/// unknown.
pub fn calibrated_speedup(
    folds: &[(usize, RoundProgress)],
    k: usize,
    costs: &Costs<'_>,
) -> Option<f64> {
    let (mut plain, mut cell) = (0.0, 0.0);
    for (tokens, progress) in folds {
        let round = progress.expected_cost(k, |n| {
            Some(costs.cell.outside_target(n)? + costs.passes.target_us(n + 1)?)
        })?;
        let per_round = 1.0 + progress.expected_accepted(k)?;
        plain += *tokens as f64 * costs.plain_us;
        cell += *tokens as f64 * round / per_round;
    }
    ratio(plain, cell)
}
