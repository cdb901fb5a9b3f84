//! Acceptance: the share of drafted tokens that survive verification.

use std::ops::AddAssign;

use super::ratio;
use crate::measure::rows::RoundRow;

/// Sums over rounds, from which the ratios follow. Nothing behind the end of a completion counts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Acceptance {
    /// Rounds.
    pub rounds: usize,
    /// Drafted tokens.
    pub proposed: usize,
    /// Accepted tokens, up to the end of the completion.
    pub accepted: usize,
    /// Nodes, the context included, at which the verifier decided.
    pub forks: usize,
    /// Sum over these nodes of Σ_x min(p(x), q(x)).
    pub overlap_sum: f64,
    /// Rounds whose draft was a tree instead of a chain.
    pub trees: usize,
    /// Sum of α* over the forks, and the number of rounds for which it is unknown.
    pub ceilings: (f64, usize),
    /// Sum of the total variations between the tokens' distributions and the target's,
    /// and the number of rounds for which it is unknown.
    pub distances: (f64, usize),
}

impl Acceptance {
    /// The sums over some rounds.
    pub fn of<'a>(rounds: impl IntoIterator<Item = &'a RoundRow>) -> Self {
        let mut sums = Self::default();
        for round in rounds {
            sums += Self {
                rounds: 1,
                proposed: round.proposed,
                accepted: round.kept(),
                forks: round.forks,
                overlap_sum: round.overlap_sum,
                trees: usize::from(round.proposed > round.depth),
                ceilings: known(round.ceiling_sum),
                distances: known(round.tv_sum),
            };
        }
        sums
    }

    /// Σ accepted / Σ proposed. It falls with K even if alpha does not, because
    /// everything after a rejection counts as proposed.
    pub fn acceptance_rate(&self) -> Option<f64> {
        ratio(self.accepted as f64, self.proposed as f64)
    }

    /// Σ overlap / Σ forks: the probability that rejection sampling keeps a one-token
    /// draft, averaged over the positions reached (alpha of Leviathan et al. 2023, arXiv
    /// 2211.17192). It is computed from the distributions, without the noise of the
    /// draws. `None` if any draft was a tree: the distribution of a first sibling depends
    /// on how its siblings were chosen, so two trees of the same models would differ.
    pub fn alpha(&self) -> Option<f64> {
        ratio(self.overlap_sum, self.forks as f64).filter(|_| self.trees == 0)
    }

    /// α*, averaged over the nodes at which the verifier decided: the largest probability with
    /// which a node-by-node rule can accept one of the children. `None` if it is unknown for any
    /// round, because the other rounds are a biased sample.
    pub fn ceiling(&self) -> Option<f64> {
        ratio(complete(self.ceilings)?, self.forks as f64)
    }

    /// Accepted tokens as a share of Σ α*. Rules that decide on a whole path (block verification)
    /// can exceed 1. `None` if [`Self::ceiling`] is.
    pub fn share_of_ceiling(&self) -> Option<f64> {
        ratio(self.accepted as f64, complete(self.ceilings)?)
    }

    /// The total variation between the distribution of a token, given the tokens before
    /// it, and the target's, averaged over all tokens; bonus tokens count with 0. `None`
    /// if it is unknown for any round.
    pub fn tv(&self) -> Option<f64> {
        ratio(complete(self.distances)?, (self.accepted + self.rounds) as f64)
    }

    /// τ = mean(accepted + 1): tokens per target pass, including the correction or bonus. The last
    /// round counts as if the end of the completion had left room for it.
    pub fn block_efficiency(&self) -> Option<f64> {
        ratio((self.accepted + self.rounds) as f64, self.rounds as f64)
    }
}

impl AddAssign for Acceptance {
    fn add_assign(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.proposed += other.proposed;
        self.accepted += other.accepted;
        self.forks += other.forks;
        self.overlap_sum += other.overlap_sum;
        self.trees += other.trees;
        self.ceilings.0 += other.ceilings.0;
        self.ceilings.1 += other.ceilings.1;
        self.distances.0 += other.distances.0;
        self.distances.1 += other.distances.1;
    }
}

/// The value of one round (0 if unknown), and the number of unknown values (0 or 1).
fn known(sum: Option<f64>) -> (f64, usize) {
    (sum.unwrap_or(0.0), usize::from(sum.is_none()))
}

/// The sum, or `None` if any round was unknown.
fn complete((sum, unknown): (f64, usize)) -> Option<f64> {
    (unknown == 0).then_some(sum)
}
