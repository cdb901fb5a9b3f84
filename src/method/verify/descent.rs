//! Verification one level at a time, from the context downwards.

use crate::core::chance::{Chance, Purpose, Site};
use crate::core::distribution::{Dist, Token};
use crate::core::round::Verdict;
use crate::core::tree::{Draft, NodeId, Row};

/// A node of the draft whose children are to be accepted or rejected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fork<'f> {
    pub draft: &'f Draft,
    /// The node; `None` for the context.
    at: Option<NodeId>,
    /// The target's distribution after this node.
    pub p: &'f Dist,
}

/// The decision of a rule at a fork.
#[derive(Debug, Clone, Copy)]
pub(super) enum Decision {
    /// This child is kept.
    Keep(NodeId),
    /// No child is kept, and this token follows.
    Next {
        token: Token,
        /// How many residuals had no mass left.
        fallbacks: usize,
    },
}

impl<'f> Fork<'f> {
    /// The children in draw order.
    pub(super) fn children(&self) -> impl Iterator<Item = NodeId> + 'f {
        self.draft.children(self.at)
    }

    /// Number of tokens before the children.
    pub(super) fn position(&self) -> usize {
        self.draft.start() + self.at.map_or(0, |id| self.draft.node(id).depth)
    }

    /// Draws the token that follows this node.
    pub(super) fn draw(&self, purpose: Purpose, dist: &Dist, chance: &mut dyn Chance) -> Token {
        chance.categorical(Site { purpose, node: Row::after(self.at).number() }, dist)
    }

    /// Draws the token that follows this node after all children were rejected: from
    /// the remaining measure, or from p if rounding has left it without mass.
    pub(super) fn correct(&self, rest: Vec<f64>, chance: &mut dyn Chance) -> Decision {
        let dist = Dist::from_measure(rest);
        let fallbacks = usize::from(dist.is_none());
        let dist = dist.as_ref().map_or(self.p, |(dist, _)| dist);
        Decision::Next { token: self.draw(Purpose::Residual, dist, chance), fallbacks }
    }

    /// The token after a leaf.
    pub(super) fn bonus(&self, chance: &mut dyn Chance) -> Decision {
        Decision::Next { token: self.draw(Purpose::Bonus, self.p, chance), fallbacks: 0 }
    }
}

/// Decides with probability `p` whether a child is accepted.
pub(super) fn accepts(child: NodeId, p: f64, chance: &mut dyn Chance) -> bool {
    chance.bernoulli(Site { purpose: Purpose::Accept, node: child }, p)
}

/// Applies `rule` level by level until it keeps no child.
pub(super) fn descend(
    draft: &Draft,
    targets: &[Dist],
    mut rule: impl FnMut(&Fork<'_>) -> Decision,
) -> Verdict {
    let mut verdict = Verdict::default();
    loop {
        let at = verdict.path.last().copied();
        match rule(&Fork { draft, at, p: &targets[verdict.last_row().number()] }) {
            Decision::Keep(child) => verdict.path.push(child),
            Decision::Next { token, fallbacks } => {
                verdict.next = token;
                verdict.residual_fallbacks += fallbacks;
                return verdict;
            }
        }
    }
}
