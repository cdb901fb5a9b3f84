//! A bet on one bug, and what it would take to notice the bug.

use super::bugs::KnownBug;
use super::placed::BugAtToken;
use super::places::RoundPlaces;
use super::wealth::{STRENGTHS, Wealth, strength};

/// How many places at most are kept to tell how much a token tells on average.
const KEPT: usize = 2048;

/// A bet.
#[derive(Debug, Clone)]
pub struct Bet {
    /// The bug.
    pub bug: &'static KnownBug,
    /// What it has won.
    pub wealth: Wealth,
    /// Tokens that it was placed on.
    pub tokens: usize,
    /// The sum over them of the total variation between the bug's law and the target's.
    distance: f64,
    places: RoundPlaces,
    draws: Vec<(usize, DrawnRatios)>,
}

/// Where a bug shows with some probability, b/p there of a token that was drawn from p, and of one
/// that was drawn from b.
#[derive(Debug, Clone, Copy)]
struct DrawnRatios {
    share: f64,
    exact: f64,
    own: f64,
}

impl Bet {
    /// A bet on a bug of a decoder that drafts any of these numbers of tokens.
    pub fn new(bug: &'static KnownBug, ks: &[usize]) -> Self {
        Self {
            bug,
            wealth: Wealth::default(),
            tokens: 0,
            distance: 0.0,
            places: RoundPlaces::new(ks),
            draws: Vec::new(),
        }
    }

    /// Begins a text.
    pub fn begin(&mut self) {
        self.places.restart();
    }

    /// Bets on a token at a place with this number; the decoder may have told whether it ended its
    /// round.
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

    /// The mean total variation between the bug's law and the target's.
    pub fn mean_distance(&self) -> f64 {
        self.distance / self.tokens.max(1) as f64
    }

    /// The smallest share of the bug that so many tokens would refute in nine of ten audits, if
    /// the logarithm of the wealth must reach `log`; `None` if they would refute none. Of what is
    /// bet, the right strength has one part.
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

    /// Mean and variance of what a bet of this strength wins per token, as a logarithm, if the
    /// bug has this share. That b/p − 1 has the mean 0 over tokens from p makes the mean of few
    /// draws more precise: as far as it explains what is won, it is taken out (a control variate).
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

/// b/p where a bug shows with some probability.
fn mixed(share: f64, ratio: f64) -> f64 {
    1.0 - share + share * ratio
}

/// Whether draws at a place with this number are kept when so many places have been read: of
/// many places, each second one, or fourth, and so on.
pub(super) fn is_kept(number: usize, places: usize) -> bool {
    number.is_multiple_of(places.div_ceil(KEPT).next_power_of_two())
}

/// Nine of ten normal numbers are above their mean less so many deviations.
const NINE_OF_TEN: f64 = 1.2816;

/// A bet on a whole bug loses everything where the bug cannot have drawn the token. That is
/// finite here, or else means would not be numbers.
const WORST: f64 = 700.0;
