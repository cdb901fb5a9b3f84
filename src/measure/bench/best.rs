//! The best speedup that is possible with the measured costs.

use crate::measure::statistics::expected_tokens;

/// Costs of a round, in µs.
#[derive(Debug, Clone)]
pub struct RoundCosts {
    /// `passes[m − 1]` = T(m).
    pub passes: Vec<f64>,
    /// t_d: the cost of a pass of the draft model.
    pub draft: f64,
    /// Whether one pass drafts all tokens of a round; otherwise each token takes one.
    pub at_once: bool,
    /// The time outside passes, per round.
    pub outside: f64,
    /// The time outside passes in plain decoding, per token.
    pub plain_outside: f64,
}

/// The best draft length if every drafted token is accepted with the same probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BestLength {
    /// The best draft length K.
    pub length: usize,
    /// Speedup over plain decoding with this K. If it is below 1, every K is slower.
    pub speedup: f64,
}

impl RoundCosts {
    /// Speedup with K = `length` if every drafted token is accepted with
    /// probability `acceptance` (Leviathan et al. 2023, arXiv 2211.17192,
    /// theorem 3.8, with the measured cost of K + 1 rows).
    pub fn speedup(&self, acceptance: f64, length: usize) -> f64 {
        let tokens = expected_tokens(acceptance, length);
        let plain = self.passes[0] + self.plain_outside;
        let passes = if self.at_once { length.min(1) } else { length };
        tokens * plain / (passes as f64 * self.draft + self.passes[length] + self.outside)
    }

    /// The draft length with the largest speedup at an acceptance.
    pub fn best(&self, acceptance: f64) -> BestLength {
        (1..self.passes.len())
            .map(|length| BestLength { length, speedup: self.speedup(acceptance, length) })
            .fold(BestLength { length: 0, speedup: 0.0 }, |best, next| {
                if next.speedup > best.speedup { next } else { best }
            })
    }

    /// The smallest acceptance, rounded up to 0.001, at which some draft length is faster than
    /// plain decoding; `None` if none is faster even at acceptance 1.
    pub fn break_even(&self) -> Option<f64> {
        (0..=1000).map(|i| f64::from(i) / 1000.0).find(|&a| self.best(a).speedup > 1.0)
    }
}
