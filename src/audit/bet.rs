//! A bet on one bug, and the share of the bug that it would detect.

use super::placed::BugAtToken;
use super::positions::RoundPositions;
use super::wealth::{STRENGTHS, Wealth, strength};
use crate::bugs::Bug;

/// Maximum number of positions from which the mean growth per token is estimated.
const KEPT: usize = 2048;

/// A bet on a known bug.
#[derive(Debug, Clone)]
pub struct Bet {
    /// The bug.
    pub bug: &'static Bug,
    /// Its wealth so far.
    pub wealth: Wealth,
    /// Number of tokens that it was placed on.
    pub tokens: usize,
    /// Sum over them of the total variation between the bug's distribution and the target's.
    distance: f64,
    places: RoundPositions,
    draws: Vec<(usize, DrawnRatios)>,
}

/// b/p of a token drawn from p (`exact`) and of one drawn from b (`own`), at a position where the
/// bug takes effect with probability `share`.
#[derive(Debug, Clone, Copy)]
struct DrawnRatios {
    share: f64,
    exact: f64,
    own: f64,
}

impl Bet {
    /// A bet on a bug in a decoder that drafts any of these numbers of tokens per round.
    pub fn new(bug: &'static Bug, ks: &[usize]) -> Self {
        Self {
            bug,
            wealth: Wealth::default(),
            tokens: 0,
            distance: 0.0,
            places: RoundPositions::new(ks),
            draws: Vec::new(),
        }
    }

    /// Starts a new sequence.
    pub fn begin(&mut self) {
        self.places.restart();
    }

    /// Bets on the token at position `number` of all positions read so far. `ended` says whether
    /// the token ended its round, if the decoder reports that.
    pub(super) fn place(&mut self, number: usize, seen: &BugAtToken, ended: Option<bool>) {
        let share = self.places.share(seen.shows);
        self.tokens += 1;
        self.distance += share * seen.distance;
        if let Some(ratio) = seen.ratio {
            self.wealth.bet(mixed(share, ratio));
        }
        if let Some([exact, own]) = seen.drawn {
            self.keep(number, DrawnRatios { share, exact, own });
        }
        self.places.observe(seen, ended);
    }

    /// The mean total variation between the bug's distribution and the target's.
    pub fn mean_distance(&self) -> f64 {
        self.distance / self.tokens.max(1) as f64
    }

    /// The smallest share of the bug that this many tokens would refute in nine of ten audits, if
    /// the logarithm of the wealth must reach `log`; `None` if they would refute no share. The
    /// stake is split over all strengths, so the right one holds only a part of it.
    pub fn detectable(&self, log: f64) -> Option<f64> {
        let (tokens, log) = (self.tokens as f64, log + (STRENGTHS as f64).ln());
        (0..STRENGTHS).rev().map(strength).find(|&share| {
            let (mean, variance) = self.growth(share);
            tokens * mean - NINE_OF_TEN * (tokens * variance).sqrt() >= log
        })
    }

    fn keep(&mut self, number: usize, ratios: DrawnRatios) {
        self.draws.push((number, ratios));
        if self.draws.len() > KEPT {
            self.draws.retain(|&(at, _)| is_kept(at, number + 1));
        }
    }

    /// Mean and variance per token of the logarithm of what a bet of this strength wins, if the
    /// bug has this share. b/p − 1 has mean 0 over tokens drawn from p, so it serves as a control
    /// variate that makes the mean over few draws more precise.
    fn growth(&self, strength: f64) -> (f64, f64) {
        let won = |ratio: f64| (strength * (ratio - 1.0)).ln_1p().max(-WORST);
        let [mut mean, mut square, mut excess, mut both, mut alone] = [0.0; 5];
        for &(_, DrawnRatios { share, exact, own }) in &self.draws {
            let [exact, own] = [exact, own].map(|ratio| mixed(share, ratio));
            let by_bug = strength * share;
            let (by_target, off) = ((1.0 - by_bug) * won(exact), exact - 1.0);
            mean += by_target + by_bug * won(own);
            square += by_target * won(exact) + by_bug * won(own).powi(2);
            excess += off;
            both += off * by_target;
            alone += off * off;
        }
        let draws = self.draws.len().max(1) as f64;
        let explained = if alone > 0.0 { excess * both / alone } else { 0.0 };
        let mean = (mean - explained) / draws;
        (mean, (square / draws - mean * mean).max(0.0))
    }
}

/// b/p at a position where the bug takes effect with probability `share`.
fn mixed(share: f64, ratio: f64) -> f64 {
    1.0 - share + share * ratio
}

/// Whether the draws at this position are kept once `places` positions have been read: every
/// second one of many, then every fourth, and so on.
pub(super) fn is_kept(number: usize, places: usize) -> bool {
    number.is_multiple_of(places.div_ceil(KEPT).next_power_of_two())
}

/// Nine of ten draws from a normal distribution exceed its mean minus this many deviations.
const NINE_OF_TEN: f64 = 1.2816;

/// A bet of full strength loses everything on a token that the bug cannot draw. This bound on the
/// loss keeps the means finite.
const WORST: f64 = 700.0;
