//! Bets on unknown bugs, which learn from the tokens before.
//!
//! Tokens are divided into groups. If a group has occurred more often so far than p predicts, the
//! bet expects this to continue: b(x) = p(x) w(x) / Σ_y p(y) w(y), where w is the ratio of the
//! observed to the expected number of tokens in the group of x. b depends on the past alone, so the
//! bet is as fair as one on a known distribution. It finds any bug that the groups show.

use super::groups::{Grouped, PastTokens};
use super::unknown::UnknownBug;
use super::wealth::Wealth;
use crate::bugs::PositionDists;
use crate::core::distribution::Token;

/// A learning bet.
#[derive(Debug, Clone)]
pub struct LearntBet {
    /// The grouping that it uses.
    pub bug: &'static UnknownBug,
    /// Its wealth so far.
    pub wealth: Wealth,
    /// Number of tokens that it was placed on.
    pub tokens: usize,
    /// Sum over them of the total variation between its distribution and the target's.
    distance: f64,
    came: Vec<f64>,
    expected: Vec<f64>,
    past: PastTokens,
}

/// Number of tokens that every group starts with, both observed and expected.
const BEFORE: f64 = 2.0;

impl LearntBet {
    pub(super) fn new(bug: &'static UnknownBug) -> Self {
        Self {
            bug,
            wealth: Wealth::default(),
            tokens: 0,
            distance: 0.0,
            came: Vec::new(),
            expected: Vec::new(),
            past: PastTokens::default(),
        }
    }

    /// Starts a new sequence.
    pub(super) fn begin(&mut self) {
        self.past = PastTokens::default();
    }

    /// Bets on a token, if it can, and learns from it. `drafted` is the draft model's most probable
    /// token.
    pub(super) fn place(
        &mut self,
        dists: &PositionDists<'_>,
        token: Token,
        drafted: Option<Token>,
    ) {
        if let Some(grouped) = (self.bug.groups)(dists, &self.past, token) {
            self.bet(&grouped, dists.target.p(token) > 0.0);
        }
        self.past.add(token, drafted);
    }

    fn bet(&mut self, Grouped { masses, own }: &Grouped, possible: bool) {
        for list in [&mut self.came, &mut self.expected] {
            list.resize(masses.len(), BEFORE);
        }
        let weights = self.came.iter().zip(&self.expected).map(|(came, expected)| came / expected);
        let weights = weights.collect::<Vec<_>>();
        let all = masses.iter().zip(&weights).map(|(mass, weight)| mass * weight).sum::<f64>();
        let off = masses.iter().zip(&weights).map(|(mass, weight)| mass * (weight - all).abs());
        self.tokens += 1;
        self.distance += 0.5 * off.sum::<f64>() / all;
        if possible {
            self.wealth.bet(own.iter().map(|&(at, share)| share * weights[at]).sum::<f64>() / all);
        }
        for &(at, share) in own {
            self.came[at] += share;
        }
        for (expected, mass) in self.expected.iter_mut().zip(masses) {
            *expected += mass;
        }
    }

    /// The mean total variation between its distribution and the target's.
    pub fn mean_distance(&self) -> f64 {
        self.distance / self.tokens.max(1) as f64
    }
}
