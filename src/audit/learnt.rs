//! Bets on bugs that nobody has described: what they say is learnt from the tokens before.
//!
//! Tokens are divided into groups. A group that came more often so far than p says is bet to go
//! on so: b(x) = p(x) w(x) / Σ_y p(y) w(y), where w is the ratio of how often tokens of x's group
//! came and how often they were expected. That depends on the past alone, so that such a bet is
//! as fair as one on a known law, and it finds whatever the division into groups shows.

use super::groups::{Grouped, TextPast};
use super::laws::PlaceLaws;
use super::unknown::UnknownBug;
use super::wealth::Wealth;
use crate::distribution::Token;

/// A bet that learns.
#[derive(Debug, Clone)]
pub struct LearntBet {
    /// What it looks at.
    pub bug: &'static UnknownBug,
    /// What it has won.
    pub wealth: Wealth,
    /// Tokens that it was placed on.
    pub tokens: usize,
    /// The sum over them of the total variation between what it said and the target's law.
    distance: f64,
    came: Vec<f64>,
    expected: Vec<f64>,
    past: TextPast,
}

/// Tokens that every group is taken to have had already, as many as were expected.
const BEFORE: f64 = 2.0;

impl LearntBet {
    /// A bet that has seen nothing.
    pub(super) fn new(bug: &'static UnknownBug) -> Self {
        Self {
            bug,
            wealth: Wealth::default(),
            tokens: 0,
            distance: 0.0,
            came: Vec::new(),
            expected: Vec::new(),
            past: TextPast::default(),
        }
    }

    /// Begins a text.
    pub(super) fn begin(&mut self) {
        self.past = TextPast::default();
    }

    /// Bets on a token, if it can, and learns from it;
    /// `drafted` is the draft model's most probable token.
    pub(super) fn place(&mut self, laws: &PlaceLaws<'_>, token: Token, drafted: Option<Token>) {
        if let Some(grouped) = (self.bug.groups)(laws, &self.past, token) {
            self.bet(&grouped, laws.target.p(token) > 0.0);
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
        own.iter().for_each(|&(at, share)| self.came[at] += share);
        self.expected.iter_mut().zip(masses).for_each(|(expected, mass)| *expected += mass);
    }

    /// The mean total variation between what it said and the target's law.
    pub fn mean_distance(&self) -> f64 {
        self.distance / self.tokens.max(1) as f64
    }
}
