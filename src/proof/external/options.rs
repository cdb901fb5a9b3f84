//! The options for certifying an external verifier.

use super::case_list::SHAPE;
use crate::core::error::Error;
use crate::proof::joint::TOLERANCE;

/// The largest number of sequences of K + 1 tokens.
const MOST_SEQUENCES: usize = 1 << 12;
/// The largest number of sampled rounds.
const MOST_ROUNDS: u64 = 1_000_000_000;

/// The verifier's floating-point precision, which decides how large rounding errors may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExternalPrecision {
    /// Double precision.
    #[default]
    F64,
    /// Single precision.
    F32,
}

impl ExternalPrecision {
    /// The largest difference from the target's distribution that rounding may cause in a round of
    /// `k` drafted tokens.
    ///
    /// In f64 it is 1e-12. In f32, p and q have a relative rounding error of 2^-24 each, and so do
    /// a ratio and a difference. The weights of a choice are normalised in f64. The error of a
    /// residual is relative to p and q, even if the residual is small. But a residual is used only
    /// after a rejection, whose probability is the residual's mass. Fewer than 16 such errors
    /// affect a token, and K + 1 tokens follow one another.
    pub fn bar(self, k: usize) -> f64 {
        match self {
            Self::F64 => TOLERANCE,
            Self::F32 => 16.0 * (k + 1) as f64 * f64::powi(2.0, -24),
        }
    }
}

/// The options for certifying a verifier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExternalOptions {
    /// Number of tokens of the vocabulary, V: at least 2.
    pub vocab: usize,
    /// Number of drafted tokens, K: at least 1.
    pub k: usize,
    /// The verifier's floating-point precision.
    pub precision: ExternalPrecision,
    /// The total variation that sampling must detect: a verifier with this root mean square over
    /// the cases is refuted in nine of ten runs. From 1e-4 to 0.5.
    pub detect: f64,
    /// The number of sampled rounds; by default as many as `detect` needs.
    pub rounds: Option<u64>,
    /// Seed of random cases and of sampled rounds.
    pub seed: u64,
}

impl Default for ExternalOptions {
    fn default() -> Self {
        let precision = ExternalPrecision::default();
        let [vocab, k] = SHAPE;
        Self { vocab, k, precision, detect: 0.01, rounds: None, seed: 0 }
    }
}

impl ExternalOptions {
    /// The options themselves, if they are valid.
    pub(super) fn checked(&self) -> Result<&Self, Error> {
        let &Self { vocab, k, detect, .. } = self;
        if vocab < 2 {
            return Err(Error::setting(format!("vocab is {vocab}, but must be at least 2")));
        }
        if k < 1 {
            return Err(Error::setting("k is 0, but must be at least 1"));
        }
        let sequences = u32::try_from(k + 1).ok().and_then(|n| vocab.checked_pow(n));
        if sequences.is_none_or(|sequences| sequences > MOST_SEQUENCES) {
            return Err(Error::setting(format!(
                "vocab {vocab} and k {k}: vocab^(k+1) sequences are enumerated, \
                 at most {MOST_SEQUENCES}"
            )));
        }
        if !(1e-4..=0.5).contains(&detect) {
            return Err(Error::setting(format!("detect is {detect}: allowed is 0.0001 to 0.5")));
        }
        if self.rounds.is_some_and(|rounds| !(1..=MOST_ROUNDS).contains(&rounds)) {
            return Err(Error::setting(format!("rounds: allowed is 1 to {MOST_ROUNDS}")));
        }
        Ok(self)
    }
}
