//! The interface of external verifiers.

use serde::Serialize;

use crate::core::distribution::Token;
use crate::core::error::Error;

/// A round for the verifier to decide.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ExternalRound {
    /// The target's distributions, K + 1 rows of V probabilities: `p[0]` after the
    /// context, `p[i]` after the first `i` tokens of the draft.
    pub p: Vec<Vec<f64>>,
    /// The draft's distributions, K rows of V probabilities: `draft[i]` was drawn from `q[i]`.
    pub q: Vec<Vec<f64>>,
    /// The K drafted tokens.
    pub draft: Vec<Token>,
}

/// The source of a verifier's random decisions.
pub trait ExternalChance {
    /// Draws an index with probability proportional to its weight. Verifiers that use only this are
    /// enumerated.
    ///
    /// # Errors
    /// If a weight is negative or not finite, or if none is positive.
    fn choose(&mut self, weights: &[f64]) -> Result<usize, Error>;

    /// Draws a uniform number in `[0, 1)`. Verifiers that use it are sampled.
    ///
    /// # Errors
    /// If the verifier requests too many numbers in a round.
    fn uniform(&mut self) -> Result<f64, Error>;

    /// The results of the next choices, as far as they are known because the walk has been there
    /// before. They can be sent to a remote verifier in advance.
    fn foreseen(&self) -> Vec<usize> {
        Vec::new()
    }
}

/// An external verifier.
pub trait ExternalVerifier {
    /// Returns the 1 to K + 1 tokens of the round: the accepted tokens from the beginning of the
    /// draft, and one more. The result must depend only on the round and on the results from
    /// `chance`.
    ///
    /// # Errors
    /// If it cannot decide. It must return errors of `chance`.
    fn verify(
        &mut self,
        round: &ExternalRound,
        chance: &mut dyn ExternalChance,
    ) -> Result<Vec<Token>, Error>;
}

impl<F> ExternalVerifier for F
where
    F: FnMut(&ExternalRound, &mut dyn ExternalChance) -> Result<Vec<Token>, Error>,
{
    fn verify(
        &mut self,
        round: &ExternalRound,
        chance: &mut dyn ExternalChance,
    ) -> Result<Vec<Token>, Error> {
        self(round, chance)
    }
}

impl ExternalRound {
    /// Number of tokens of the vocabulary.
    pub fn vocab(&self) -> usize {
        self.p[0].len()
    }

    /// A message if these tokens cannot be the tokens of the round.
    pub(super) fn fault(&self, tokens: &[Token]) -> Option<String> {
        let (k, vocab) = (self.draft.len(), self.vocab());
        let Some((next, accepted)) = tokens.split_last() else {
            return Some("it returned no token: a round has at least one".to_owned());
        };
        if tokens.len() > k + 1 {
            return Some(format!(
                "it returned {} tokens {tokens:?}: a round has at most {}, the {k} of the draft \
                 and one more",
                tokens.len(),
                k + 1
            ));
        }
        if let Some(token) = tokens.iter().find(|&&token| token as usize >= vocab) {
            return Some(format!(
                "it returned {tokens:?}, but there is no token {token}: tokens are 0 to {}",
                vocab - 1
            ));
        }
        if accepted != &self.draft[..accepted.len()] {
            return Some(format!(
                "it returned {tokens:?}: all but the last, {next}, must be the first tokens of \
                 the draft"
            ));
        }
        None
    }
}

/// The sum of the weights of a choice.
pub(super) fn total(weights: &[f64]) -> Result<f64, Error> {
    let wrong =
        |why: String| Err(Error::input(format!("it asked to choose by {weights:?}: {why}")));
    for (index, &weight) in weights.iter().enumerate() {
        if !weight.is_finite() {
            return wrong(format!("weight {index} is {weight}, which is not a finite number"));
        }
        if weight < 0.0 {
            return wrong(format!("weight {index} is negative"));
        }
    }
    let total = weights.iter().sum::<f64>();
    if !total.is_finite() {
        return wrong("the weights are too large to be summed".to_owned());
    }
    if total <= 0.0 {
        return wrong("no weight is positive".to_owned());
    }
    Ok(total)
}
