//! What a verifier from outside is certified with.

use crate::error::Error;
use crate::exactness::joint::TOLERANCE;

/// The most texts of K + 1 tokens that are enumerated.
const MOST_TEXTS: usize = 1 << 12;
/// The most rounds that are sampled.
const MOST_ROUNDS: u64 = 1_000_000_000;

/// The numbers that a verifier computes with, which decide how far off rounding may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExternalPrecision {
    /// Double precision.
    #[default]
    F64,
    /// Single precision.
    F32,
}

impl ExternalPrecision {
    /// The largest difference from the target's law that rounding may cause in a round of
    /// `k` drafted tokens.
    ///
    /// In f64 it is 1e-12. In f32, p and q lose 2^-24 of their value each, and so do a ratio
    /// and a difference; what is chosen by is normalised in f64. A residual loses as much of p
    /// and q, however small it is itself, but it is used with the probability of a rejection,
    /// which is its mass. Fewer than 16 such losses meet at a token, of which K + 1 follow one
    /// another.
    pub fn bar(self, k: usize) -> f64 {
        match self {
            Self::F64 => TOLERANCE,
            Self::F32 => 16.0 * (k + 1) as f64 * f64::powi(2.0, -24),
        }
    }
}

/// What to certify a verifier with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExternalOptions {
    /// Number of tokens of the vocabulary, V: at least 2.
    pub vocab: usize,
    /// Number of drafted tokens, K: at least 1.
    pub k: usize,
    /// What it computes with.
    pub precision: ExternalPrecision,
    /// The total variation that sampling is to find: a verifier so far off, in the root mean
    /// square over the cases, is refuted in nine of ten runs. From 1e-4 to 0.5.
    pub detect: f64,
    /// The number of sampled rounds, instead of as many as `detect` needs.
    pub rounds: Option<u64>,
    /// Seed of sampled rounds.
    pub seed: u64,
}

impl Default for ExternalOptions {
    fn default() -> Self {
        let precision = ExternalPrecision::default();
        Self { vocab: 4, k: 3, precision, detect: 0.01, rounds: None, seed: 0 }
    }
}

impl ExternalOptions {
    /// The options themselves, if they can be certified with.
    ///
    /// # Errors
    /// If a number is out of its range, or there would be too many texts.
    pub(super) fn checked(&self) -> Result<&Self, Error> {
        let &Self { vocab, k, detect, .. } = self;
        if vocab < 2 {
            return Err(Error::setting(format!("vocab is {vocab}, but must be at least 2")));
        }
        if k < 1 {
            return Err(Error::setting("k is 0, but must be at least 1"));
        }
        let texts = u32::try_from(k + 1).ok().and_then(|n| vocab.checked_pow(n));
        if texts.is_none_or(|texts| texts > MOST_TEXTS) {
            return Err(Error::setting(format!(
                "vocab {vocab} and k {k}: vocab^(k+1) texts are enumerated, at most {MOST_TEXTS}"
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
