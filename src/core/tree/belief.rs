//! The drafter's belief at the position of a token.

use std::rc::Rc;

use super::Node;
use crate::core::distribution::Dist;

/// The drafter's belief about a token, for draft length policies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenBelief {
    /// The drafter's probability of it.
    pub confidence: f64,
    /// Entropy, in nats, of the drafter's distribution at its position.
    pub entropy: f64,
}

/// The belief recorded with a node.
#[derive(Debug, Clone)]
pub(super) enum Belief {
    /// The whole distribution.
    Distribution(Rc<Dist>),
    /// The known properties of a distribution that was not kept.
    Known(TokenBelief),
}

impl Node {
    /// The drafter's distribution at this node's position: the one it was drawn from
    /// unless [`super::Draft::believe`] recorded another.
    pub fn belief(&self, vocab: usize) -> Rc<Dist> {
        match &self.belief {
            Some(Belief::Distribution(dist)) => Rc::clone(dist),
            Some(Belief::Known(_)) | None => self.distribution(vocab),
        }
    }

    /// The drafter's probability of the token.
    pub fn confidence(&self, vocab: usize) -> f64 {
        match &self.belief {
            Some(Belief::Known(known)) => known.confidence,
            _ => self.belief(vocab).p(self.token),
        }
    }

    /// Entropy, in nats, of the drafter's distribution at the token's position.
    pub fn entropy(&self, vocab: usize) -> f64 {
        match &self.belief {
            Some(Belief::Known(known)) => known.entropy,
            _ => self.belief(vocab).entropy(),
        }
    }
}
