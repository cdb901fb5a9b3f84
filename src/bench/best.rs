//! The best speedup that measured costs allow.

use crate::statistics::expected_tokens;

/// Costs of a round, in µs.
#[derive(Debug, Clone)]
pub struct Costs {
    /// `passes[m − 1]` = T(m).
    pub passes: Vec<f64>,
    /// t_d: drafting one token.
    pub draft: f64,
    /// Everything outside of passes, per round.
    pub outside: f64,
    /// The same in plain decoding, per token.
    pub plain_outside: f64,
}

/// The best draft length at some acceptance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Best {
    /// α, the same at every position.
    pub acceptance: f64,
    /// K.
    pub length: usize,
    /// Speedup over plain decoding with that K; below 1 no K helps.
    pub speedup: f64,
}

impl Costs {
    /// Speedup with K = `length` if every drafted token is accepted with
    /// probability `acceptance` (Leviathan et al. 2023, arXiv 2211.17192,
    /// theorem 3.8, with the measured cost of K + 1 rows).
    pub fn speedup(&self, acceptance: f64, length: usize) -> f64 {
        let tokens = expected_tokens(acceptance, length);
        let plain = self.passes[0] + self.plain_outside;
        tokens * plain / (length as f64 * self.draft + self.passes[length] + self.outside)
    }

    /// The best length at an acceptance.
    pub fn best(&self, acceptance: f64) -> Best {
        (1..self.passes.len())
            .map(|length| Best { acceptance, length, speedup: self.speedup(acceptance, length) })
            .fold(Best { acceptance, length: 0, speedup: 0.0 }, |best, next| {
                if next.speedup > best.speedup { next } else { best }
            })
    }

    /// The least acceptance at which some length is faster than plain decoding,
    /// to 0.001; none if even certain acceptance does not help.
    pub fn break_even(&self) -> Option<f64> {
        (0..=1000).map(|i| f64::from(i) / 1000.0).find(|&a| self.best(a).speedup > 1.0)
    }
}
