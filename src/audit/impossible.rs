//! Tokens that an exact decoder cannot draw.

use crate::core::distribution::{Dist, Token};
use crate::core::sampling::Logits;

/// A token of probability 0.
#[derive(Debug, Clone, PartialEq)]
pub struct ImpossibleToken {
    /// Number of the sequence among all that were read.
    pub sequence: usize,
    /// Id of the prompt.
    pub prompt: String,
    /// Number of the sequence among those of the prompt.
    pub repeat: u32,
    /// The token's position in the completion.
    pub at: usize,
    /// The token.
    pub token: Token,
    /// How far its logit, after penalties, lies below the smallest logit in the support; at
    /// temperature 0, below the largest logit. Rounding differences may reverse small gaps.
    pub gap: f64,
}

/// How far the score of a token lies below the scores of the support of `dist`.
pub(super) fn gap(dist: &Dist, scores: &Logits, token: Token) -> f64 {
    let least = dist.support().map(|(token, _)| scores.get(token)).fold(f64::INFINITY, f64::min);
    if (token as usize) < scores.len() { least - scores.get(token) } else { f64::INFINITY }
}
