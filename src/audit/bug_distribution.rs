//! How a bug changes the distribution of a token.

use super::masses::sum;

/// The distribution of a token in a decoder with a bug. Each list has a probability for every token
/// of the vocabulary.
#[derive(Debug, Clone, PartialEq)]
pub enum BugDistribution {
    /// The same at every position of a round.
    Everywhere(Vec<f64>),
    /// Of a drafted token, or of the token that replaces it. The token after a fully accepted draft
    /// has the target's distribution.
    Drafted {
        /// The probability that the token is drafted and accepted; the round continues.
        accepted: Vec<f64>,
        /// The probability that the draft is rejected and this token replaces it, which ends the
        /// round.
        corrected: Vec<f64>,
    },
    /// Of the token after a fully accepted draft; all other tokens are exact.
    Bonus(Vec<f64>),
}

impl BugDistribution {
    /// Accepts drafted tokens with these probabilities. A rejected token is replaced by a draw from
    /// `replacement`; none is needed if no token is ever rejected.
    pub(super) fn corrected_by(accepted: Vec<f64>, replacement: Option<&[f64]>) -> Self {
        let left = (1.0 - sum(&accepted)).max(0.0);
        let corrected = match replacement {
            Some(dist) => dist.iter().map(|mass| left * mass).collect(),
            None => vec![0.0; accepted.len()],
        };
        Self::Drafted { accepted, corrected }
    }
}
