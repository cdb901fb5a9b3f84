//! A bet on one bug, and what it would take to notice the bug.

use super::bugs::KnownBug;
use super::laws::{PlaceLaws, dense};
use super::places::RoundPlaces;
use super::wealth::{STRENGTHS, Wealth, strength};
use crate::chance::{Chance, Purpose, Seeded, Site};
use crate::distribution::{Dist, Token};

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
    draws: RatioDraws,
}

/// b/p at a token that was drawn from p, and at one that was drawn from b, for some places.
#[derive(Debug, Clone, Default)]
struct RatioDraws {
    kept: Vec<[f64; 2]>,
    seen: usize,
    stride: usize,
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
            draws: RatioDraws { stride: 1, ..RatioDraws::default() },
        }
    }

    /// Begins a text.
    pub fn begin(&mut self) {
        self.places.restart();
    }

    /// Bets on a token, if it can; the decoder may have told whether it ended its round.
    pub fn place(
        &mut self,
        laws: &PlaceLaws<'_>,
        (token, ended): (Token, Option<bool>),
        chance: &mut Seeded,
    ) {
        let Some(bug) = (self.bug.law)(laws) else { return };
        let law = self.places.law(&bug, laws.target);
        let ratio = |token: Token| law[token as usize] / laws.target.p(token);
        self.tokens += 1;
        self.distance += distance(&law, laws.target);
        if laws.target.p(token) > 0.0 {
            self.wealth.bet(ratio(token));
        }
        if self.draws.wants() {
            let site = |node| Site { purpose: Purpose::Target, node };
            let exact = ratio(chance.categorical(site(0), laws.target));
            let drawn = Dist::from_weights(law.clone()).ok();
            let drawn = drawn.map_or(1.0, |law| ratio(chance.categorical(site(1), &law)));
            self.draws.keep([exact, drawn]);
        }
        self.places.observe(&bug, laws.target, (token, ended));
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
        let found = (0..STRENGTHS).map(strength).take_while(|&share| {
            let (mean, variance) = self.draws.growth(share);
            tokens * mean - NINE_OF_TEN * (tokens * variance).sqrt() >= log
        });
        found.last()
    }
}

/// Nine of ten normal numbers are above their mean less so many deviations.
const NINE_OF_TEN: f64 = 1.2816;

impl RatioDraws {
    fn wants(&mut self) -> bool {
        self.seen += 1;
        (self.seen - 1).is_multiple_of(self.stride)
    }

    fn keep(&mut self, ratios: [f64; 2]) {
        self.kept.push(ratios);
        if self.kept.len() > KEPT {
            let mut at = 0;
            self.kept.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.stride *= 2;
        }
    }

    /// Mean and variance of what a bet on this share wins per token, as a logarithm, if that is
    /// the share of the bug.
    fn growth(&self, share: f64) -> (f64, f64) {
        let won = |ratio: f64| (share * (ratio - 1.0)).ln_1p().max(-WORST);
        let sum = |power: i32| {
            let each = self.kept.iter().map(|&[exact, drawn]| {
                (1.0 - share) * won(exact).powi(power) + share * won(drawn).powi(power)
            });
            each.sum::<f64>() / self.kept.len().max(1) as f64
        };
        let mean = sum(1);
        (mean, (sum(2) - mean * mean).max(0.0))
    }
}

/// A bet on a whole bug loses everything where the bug cannot have drawn the token. That is
/// finite here, or else means would not be numbers.
const WORST: f64 = 700.0;

/// The total variation between a law and the target's.
fn distance(law: &[f64], target: &Dist) -> f64 {
    dense(target).iter().zip(law).map(|(p, own)| (p - own).max(0.0)).sum()
}
