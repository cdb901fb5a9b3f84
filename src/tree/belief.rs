//! What a drafter believed where it chose a token.

use std::rc::Rc;

use super::Node;
use crate::distribution::Dist;

/// What draft length policies see of a token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenBelief {
    /// The drafter's probability of it.
    pub confidence: f64,
    /// Entropy, in nats, of the drafter's distribution at its position.
    pub entropy: f64,
}

/// A belief that a node was given.
#[derive(Debug, Clone)]
pub(super) enum Belief {
    /// The whole distribution.
    Law(Rc<Dist>),
    /// What is known of one that was not kept.
    Known(TokenBelief),
}

impl Node {
    /// The drafter's distribution at this node's position: the one it was drawn from
    /// unless [`super::Draft::believe`] recorded another.
    pub fn belief(&self, vocab: usize) -> Rc<Dist> {
        match &self.belief {
            Some(Belief::Law(law)) => Rc::clone(law),
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
