//! What a bug makes of the law of a token.

use super::masses::sum;

/// The law of a token in a decoder with a bug; each list has a number for every token of the
/// vocabulary.
#[derive(Debug, Clone, PartialEq)]
pub enum BugLaw {
    /// The same wherever the token stands in its round.
    Everywhere(Vec<f64>),
    /// Of a drafted token, or the one in its place; the token after a whole accepted draft has
    /// the target's law.
    Drafted {
        /// The probability that the token is drafted and accepted, and the round goes on.
        accepted: Vec<f64>,
        /// The probability that the draft is rejected and the token follows, which ends the
        /// round.
        corrected: Vec<f64>,
    },
    /// Of the token after a whole accepted draft; all others come from exact rounds.
    Bonus(Vec<f64>),
}

impl BugLaw {
    /// Accepts drafted tokens with these probabilities, after which a rejected one is replaced by
    /// a draw from a law, if any ever is.
    pub(super) fn corrected_by(accepted: Vec<f64>, law: Option<&[f64]>) -> Self {
        let left = (1.0 - sum(&accepted)).max(0.0);
        let corrected = match law {
            Some(law) => law.iter().map(|mass| left * mass).collect(),
            None => vec![0.0; accepted.len()],
        };
        Self::Drafted { accepted, corrected }
    }
}
