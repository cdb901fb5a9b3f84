//! The drafted tokens of a traced run that the verifier decided on.

use crate::measure::rows::PositionRow;

/// The entropies of the target's distribution, in nats, at the drafted tokens that the
/// verifier decided on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reached {
    /// At accepted tokens.
    pub accepted: Vec<f64>,
    /// At rejected ones.
    pub rejected: Vec<f64>,
}

impl Reached {
    pub(super) fn extend(&mut self, others: &Self) {
        self.accepted.extend(&others.accepted);
        self.rejected.extend(&others.rejected);
    }

    pub(super) fn entropies(&self) -> Vec<f64> {
        [&self.accepted[..], &self.rejected].concat()
    }

    /// The number of tokens, and of accepted ones, whose entropy is in a decile that begins
    /// above the previous one of the nine `cuts`.
    pub(super) fn by_decile(&self, cuts: &[f64]) -> [(usize, usize); 10] {
        let mut counts = [(0, 0); 10];
        let mut count = |entropies: &[f64], accepted| {
            for entropy in entropies {
                let (all, kept) = &mut counts[cuts.iter().filter(|cut| *cut < entropy).count()];
                *all += 1;
                *kept += accepted;
            }
        };
        count(&self.accepted, 1);
        count(&self.rejected, 0);
        counts
    }
}

/// The drafted tokens of one round.
#[derive(Debug, Default)]
pub(super) struct TracedRound {
    /// Cell and round.
    of: (usize, u64),
    nodes: Vec<Traced>,
}

/// A drafted token.
#[derive(Debug)]
struct Traced {
    node: usize,
    parent: Option<usize>,
    entropy: f64,
    accepted: bool,
}

impl TracedRound {
    /// Whether it has no token yet.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether a token belongs to another round.
    pub(super) fn is_over(&self, cell: usize, row: &PositionRow) -> bool {
        self.of != (cell, row.round)
    }

    pub(super) fn add(&mut self, cell: usize, row: &PositionRow) {
        self.of = (cell, row.round);
        self.nodes.push(Traced {
            node: row.node,
            parent: row.parent,
            entropy: row.p_entropy,
            accepted: row.accepted,
        });
    }

    /// The cell, and the tokens that the verifier decided on: the children of the context
    /// and of every accepted token, each up to and including the accepted child.
    pub(super) fn reached(&self) -> (usize, Reached) {
        let path = self.nodes.iter().filter(|token| token.accepted).collect::<Vec<_>>();
        let decided = |token: &&Traced| {
            let below = token.parent.is_none_or(|parent| path.iter().any(|k| k.node == parent));
            below && !path.iter().any(|k| k.parent == token.parent && k.node < token.node)
        };
        let mut reached = Reached::default();
        for token in self.nodes.iter().filter(decided) {
            let side = if token.accepted { &mut reached.accepted } else { &mut reached.rejected };
            side.push(token.entropy);
        }
        (self.of.0, reached)
    }
}
