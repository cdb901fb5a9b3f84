//! Whether acceptance has dropped between two logs of the same prompts.
//!
//! A pair is a prompt in both logs, over the tokens that both completions have. What is compared is
//! the number of rounds for the same number of tokens: tokens per round, τ, is its inverse. The
//! verdict may be asked for after every request.

mod evidence;
mod pairs;
mod parts;
mod shape;

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use self::evidence::{SignedWealth, smallest_mean};
use self::pairs::{Paired, paired};
pub use self::parts::{GateCategory, GatePosition};
use crate::measure::statistics::{MIN_PROMPTS, Ratio};
use crate::tapes::recording::{RequestRounds, read_requests};
use crate::tapes::tape::{LossPlace, ShareChanges};

/// What counts as a change.
#[derive(Debug, Clone, Copy)]
pub struct GateLimits {
    /// The probability of a false alarm.
    pub level: f64,
    /// A drop of τ up to this share is allowed.
    pub max_drop: f64,
    /// A rise of τ up to this share is plausible.
    pub max_rise: f64,
}

/// What the logs show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateFinding {
    /// τ has dropped by more than is allowed.
    Dropped,
    /// τ has risen by more than is plausible, or nearly every drafted token is accepted.
    Suspicious,
    /// τ has not dropped by more than is allowed.
    Kept,
    /// These requests show neither.
    Undecided,
}

/// The outcome.
#[derive(Debug, Clone, Serialize)]
pub struct GateVerdict {
    /// What the logs show.
    pub finding: GateFinding,
    /// The probability of a false alarm.
    pub level: f64,
    /// The allowed drop of τ.
    pub max_drop: f64,
    /// The plausible rise of τ.
    pub max_rise: f64,
    /// Prompts in both logs.
    pub prompts: usize,
    /// Requests of each log that have no counterpart.
    pub unmatched: [usize; 2],
    /// By what requests are paired: `prompt` or `order`.
    pub paired_by: &'static str,
    /// Prompts whose rounds are known by their sums alone, so that they stand for all tokens.
    pub scaled: usize,
    /// Tokens that are compared.
    pub tokens: f64,
    /// Tokens per round of each log.
    pub tau: [f64; 2],
    /// The second ÷ the first.
    pub ratio: Option<f64>,
    /// The lower end of its 95 % interval over prompts.
    pub ratio_lo: Option<f64>,
    /// Its upper end.
    pub ratio_hi: Option<f64>,
    /// log₁₀ of the evidence for a drop by more than is allowed.
    pub log10_e_drop: f64,
    /// After how many prompts that was reached.
    pub prompts_drop: usize,
    /// log₁₀ of the evidence for a rise by more than is plausible.
    pub log10_e_rise: f64,
    /// The smallest drop of τ, as a share, that this many prompts show with a probability of 90 %;
    /// `None` if all prompts have the same rounds in both.
    pub smallest_drop: Option<f64>,
    /// The share of drafted tokens that were accepted, if the logs state how many were drafted.
    pub acceptance: [Option<f64>; 2],
    /// Acceptance by position.
    pub positions: Vec<GatePosition>,
    /// Changes by category.
    pub categories: Vec<GateCategory>,
    /// Where in drafts and completions acceptance has changed, if the logs have their rounds one by
    /// one and in order.
    pub changes: Option<ShareChanges>,
    /// Where it has dropped, if that shows.
    pub place: Option<LossPlace>,
}

/// A share of accepted tokens that no drafter has which does not see the answer, and the number of
/// drafted tokens from which on it counts.
const SATURATED: (f64, f64) = (0.999, 1000.0);

/// Logarithms of ratios that differ by no more than this differ by their rounding.
const NO_SPREAD: f64 = 1e-12;

/// Compares two logs; drafts of scored tapes have `k` tokens.
///
/// # Errors
/// If one cannot be read, or the two have no prompt in common.
pub fn gate(base: &Path, new: &Path, k: usize, limits: GateLimits) -> Result<GateVerdict> {
    GateVerdict::of_requests(&[read_requests(base, k)?, read_requests(new, k)?], limits)
}

impl GateVerdict {
    /// Compares the requests of two logs.
    ///
    /// # Errors
    /// If they have no prompt in common, and another number of requests.
    pub fn of_requests(logs: &[Vec<RequestRounds>; 2], limits: GateLimits) -> Result<Self> {
        Ok(Self::of(&paired(logs)?, limits))
    }

    fn of(found: &Paired, limits: GateLimits) -> Self {
        let GateLimits { level, max_drop, max_rise } = limits;
        let ratio = Ratio::of(found.prompts.iter().map(|own| ([own.rounds[0]], [own.rounds[1]])));
        let (mut drop, mut rise) = (SignedWealth::default(), SignedWealth::default());
        let changes = found.prompts.iter().map(|own| (own.rounds[0] / own.rounds[1]).ln());
        let changes = changes.collect::<Vec<_>>();
        for change in &changes {
            // With the allowed drop a change is symmetric around ln(1 − drop) at least.
            drop.bet((1.0 - max_drop).ln() - change);
            rise.bet(change - max_rise.ln_1p());
        }
        let n = changes.len();
        let mean = changes.iter().sum::<f64>() / n as f64;
        let squares = changes.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        let deviation = (squares / (n as f64 - 1.0)).sqrt();
        let smallest = |s: f64| 1.0 - (1.0 - max_drop) * (-smallest_mean(s, n, level)).exp();
        let tokens = found.prompts.iter().map(|own| own.tokens).sum::<f64>();
        let sum = |at: usize| found.prompts.iter().map(|own| own.rounds[at]).sum::<f64>();
        let interval = ratio.interval();
        let mut gate = Self {
            finding: GateFinding::Undecided,
            level,
            max_drop,
            max_rise,
            prompts: n,
            unmatched: found.unmatched,
            paired_by: found.paired_by,
            scaled: found.scaled,
            tokens,
            tau: [tokens / sum(0), tokens / sum(1)],
            ratio: ratio.value(),
            ratio_lo: interval.map(|interval| interval.lo),
            ratio_hi: interval.map(|interval| interval.hi),
            log10_e_drop: drop.log10(),
            prompts_drop: drop.at(),
            log10_e_rise: rise.log10(),
            smallest_drop: (n > 1 && deviation > NO_SPREAD).then(|| smallest(deviation)),
            acceptance: parts::acceptance(found),
            positions: parts::positions(found),
            categories: parts::categories(found),
            changes: shape::changes(found),
            place: None,
        };
        gate.place = gate.changes.and_then(|changes| changes.place());
        gate.finding = gate.decide();
        gate
    }

    fn decide(&self) -> GateFinding {
        let needed = -self.level.log10();
        if self.log10_e_drop >= needed {
            GateFinding::Dropped
        } else if self.log10_e_rise >= needed || self.is_saturated() {
            GateFinding::Suspicious
        } else if self.least_ratio().is_some_and(|least| least >= 1.0 - self.max_drop) {
            GateFinding::Kept
        } else {
            GateFinding::Undecided
        }
    }

    /// The smallest plausible ratio: that of all prompts if each has the same rounds in both logs.
    fn least_ratio(&self) -> Option<f64> {
        let same = self.prompts >= MIN_PROMPTS && self.smallest_drop.is_none();
        self.ratio_lo.or(self.ratio.filter(|_| same))
    }

    /// Whether nearly every drafted token is accepted now, and was not before.
    pub fn is_saturated(&self) -> bool {
        let (share, least) = SATURATED;
        let drafted = self.positions.iter().map(|own| own.reached[1]).sum::<usize>() as f64;
        let [before, now] = self.acceptance.map(|share| share.unwrap_or(0.0));
        drafted >= least && now >= share && before < share
    }
}
