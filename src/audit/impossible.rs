//! Tokens that an exact decoder cannot have drawn.

use crate::distribution::{Dist, Token};
use crate::sampling::Logits;

/// A token of probability 0.
#[derive(Debug, Clone, PartialEq)]
pub struct ImpossibleToken {
    /// The prompt.
    pub prompt: String,
    /// Which text of the prompt.
    pub repeat: u32,
    /// The token's place in the text.
    pub at: usize,
    /// The token.
    pub token: Token,
    /// How far its logit, after penalties, is below the smallest one that the law has: at
    /// temperature 0, the gap to the largest. Other arithmetic may reverse small gaps.
    pub gap: f64,
}

/// How far the score of a token is below those of a law that does not have it.
pub(super) fn gap(law: &Dist, scores: &Logits, token: Token) -> f64 {
    let least = law.support().map(|(token, _)| scores.get(token)).fold(f64::INFINITY, f64::min);
    if (token as usize) < scores.len() { least - scores.get(token) } else { f64::INFINITY }
}
