//! A bet on sampling settings other than the stated ones: a truncation that nobody asked for, another
//! temperature, or a model's defaults that a server applies.
//!
//! The stake is split over a grid of such settings. Each has a known distribution, so the bet needs
//! far fewer tokens than one that learns: a truncation that removes little, such as top_p = 0.98, is
//! missed in no single token, but makes every token that is left a little more probable.

use super::wealth::{Wealth, log_mean_exp};
use crate::bugs::PositionDists;
use crate::bugs::masses::{sum, sum_of};
use crate::core::distribution::{Dist, Token};

/// The name of the bet.
pub const OTHER_SETTINGS: &str = "other_settings";

/// Which tokens a decoder removes that the stated settings keep.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// What a decoder with this cut does.
    summary: &'static str,
    top_k: usize,
    top_p: f64,
    min_p: f64,
    /// Whether it looks at the probabilities before all processors.
    raw: bool,
}

/// What bounds how many tokens the cuts of the grid leave.
const FIRST: usize = 256;
const MOST_TOP_P: f64 = 0.99;
const LEAST_MIN_P: f64 = 0.01;

const fn cut(summary: &'static str) -> Cut {
    Cut { summary, top_k: usize::MAX, top_p: 1.0, min_p: 0.0, raw: false }
}

impl Cut {
    /// Whether all tokens stay.
    fn is_none(&self) -> bool {
        self.top_k == usize::MAX && self.top_p >= 1.0 && self.min_p <= 0.0
    }
}

/// Factors of the temperature, each with what else may be applied: what users set, and what engines
/// and models have as defaults.
const GRID: &[(f64, &[Cut])] = &[
    (
        1.0,
        &[
            Cut { top_p: 0.5, ..cut("also applies top_p = 0.5") },
            Cut { top_p: 0.7, ..cut("also applies top_p = 0.7") },
            Cut { top_p: 0.8, ..cut("also applies top_p = 0.8") },
            Cut { top_p: 0.9, ..cut("also applies top_p = 0.9") },
            Cut { top_p: 0.95, ..cut("also applies top_p = 0.95") },
            Cut { top_p: 0.98, ..cut("also applies top_p = 0.98") },
            Cut { top_p: 0.99, ..cut("also applies top_p = 0.99") },
            Cut { top_k: 10, ..cut("also applies top_k = 10") },
            Cut { top_k: 20, ..cut("also applies top_k = 20") },
            Cut { top_k: 40, ..cut("also applies top_k = 40") },
            Cut { top_k: 50, ..cut("also applies top_k = 50") },
            Cut { top_k: 100, ..cut("also applies top_k = 100") },
            Cut { top_k: 256, ..cut("also applies top_k = 256") },
            Cut { min_p: 0.01, ..cut("also applies min_p = 0.01") },
            Cut { min_p: 0.02, ..cut("also applies min_p = 0.02") },
            Cut { min_p: 0.05, ..cut("also applies min_p = 0.05") },
            Cut { min_p: 0.1, ..cut("also applies min_p = 0.1") },
            Cut { top_p: 0.9, raw: true, ..cut("applies top_p = 0.9 to unprocessed logits") },
            Cut { top_p: 0.95, raw: true, ..cut("applies top_p = 0.95 to unprocessed logits") },
            Cut { top_p: 0.98, raw: true, ..cut("applies top_p = 0.98 to unprocessed logits") },
            Cut { min_p: 0.05, raw: true, ..cut("applies min_p = 0.05 to unprocessed logits") },
        ],
    ),
    (0.5, &[cut("has 0.5 times the temperature")]),
    (
        0.6,
        &[
            cut("has 0.6 times the temperature"),
            Cut { top_p: 0.9, ..cut("has 0.6 times the temperature, and top_p = 0.9") },
            Cut {
                top_k: 20,
                top_p: 0.95,
                ..cut("has 0.6 times the temperature, top_k = 20 and top_p = 0.95")
            },
        ],
    ),
    (
        0.7,
        &[
            cut("has 0.7 times the temperature"),
            Cut {
                top_k: 20,
                top_p: 0.8,
                ..cut("has 0.7 times the temperature, top_k = 20 and top_p = 0.8")
            },
        ],
    ),
    (
        0.8,
        &[
            Cut {
                top_k: 40,
                top_p: 0.9,
                ..cut("has 0.8 times the temperature, top_k = 40 and top_p = 0.9")
            },
            Cut {
                top_k: 40,
                top_p: 0.95,
                min_p: 0.05,
                ..cut("has 0.8 times the temperature, top_k = 40, top_p = 0.95 and min_p = 0.05")
            },
        ],
    ),
    (0.9, &[cut("has 0.9 times the temperature")]),
    (0.95, &[cut("has 0.95 times the temperature")]),
    (1.05, &[cut("has 1.05 times the temperature")]),
    (1.1, &[cut("has 1.1 times the temperature")]),
    (1.5, &[cut("has 1.5 times the temperature")]),
];

fn cuts() -> impl Iterator<Item = (f64, &'static Cut)> {
    GRID.iter().flat_map(|&(factor, cuts)| cuts.iter().map(move |cut| (factor, cut)))
}

/// A setting's distribution b at a token.
#[derive(Debug, Clone, Copy)]
pub(super) struct SettingAtToken {
    /// b/p of the token; none if p is 0.
    ratio: Option<f64>,
    /// The total variation between b and p.
    distance: f64,
}

/// The stake on one setting.
#[derive(Debug, Clone, Default)]
struct SettingBet {
    wealth: Wealth,
    /// Sum over the tokens of the total variation.
    distance: f64,
}

/// A bet whose stake is split over all settings of the grid.
#[derive(Debug, Clone)]
pub struct SettingsBet {
    /// Number of tokens that it was placed on.
    pub tokens: usize,
    each: Vec<SettingBet>,
    best: f64,
}

impl SettingsBet {
    pub(super) fn new() -> Self {
        Self { tokens: 0, each: cuts().map(|_| SettingBet::default()).collect(), best: 0.0 }
    }

    /// Bets on a token, given each setting's distribution.
    pub(super) fn place(&mut self, seen: &[SettingAtToken]) {
        self.tokens += 1;
        for (bet, at) in self.each.iter_mut().zip(seen) {
            bet.distance += at.distance;
            if let Some(ratio) = at.ratio {
                bet.wealth.bet(ratio);
            }
        }
        self.best = self.best.max(self.log());
    }

    /// The logarithm of its wealth.
    pub fn log(&self) -> f64 {
        log_mean_exp(&self.each.iter().map(|bet| bet.wealth.log()).collect::<Vec<_>>())
    }

    /// The logarithm of its largest wealth so far.
    pub fn best(&self) -> f64 {
        self.best
    }

    /// The setting that explains the tokens best: what it does, the share of tokens that are drawn
    /// with it, and its mean total variation per token.
    pub fn likeliest(&self) -> (&'static str, f64, f64) {
        let all = cuts().zip(&self.each);
        let best = all.max_by(|a, b| a.1.wealth.log().total_cmp(&b.1.wealth.log()));
        best.map_or(("", 0.0, 0.0), |((_, cut), bet)| {
            (cut.summary, bet.wealth.strength(), bet.distance / self.tokens.max(1) as f64)
        })
    }
}

/// The distribution of each setting at a token.
pub(super) fn settings_at(dists: &PositionDists<'_>, token: Token) -> Vec<SettingAtToken> {
    let target = Ranked::of(dists.target);
    let place = target.place(token);
    let raw = dists.raw_target.map(Ranked::of);
    let logs = target.masses.iter().map(|mass| mass.ln()).collect::<Vec<_>>();
    let mut found = Vec::new();
    for &(factor, cuts) in GRID {
        let warmed = match factor {
            1.0 => target.masses.clone(),
            factor => logs.iter().map(|log| (log / factor).exp()).collect(),
        };
        let all = sum(&warmed);
        found.extend(cuts.iter().map(|cut| match (cut.raw, &raw) {
            (false, _) => target.cut(&warmed[..kept(&warmed, all, cut)], place),
            (true, Some(raw)) => raw.cut_from(dists.target, cut, token),
            // Without processors, the setting is that of the same name above.
            (true, None) => SettingAtToken { ratio: place.map(|_| 1.0), distance: 0.0 },
        }));
    }
    found
}

/// The number of tokens that a cut leaves of weights in descending order, whose sum is `all`.
fn kept(weights: &[f64], all: f64, cut: &Cut) -> usize {
    if cut.is_none() {
        return weights.len();
    }
    let least = cut.min_p * weights.first().copied().unwrap_or_default();
    let mut before = 0.0;
    let stay = weights.iter().take(cut.top_k).take_while(|&&weight| {
        let stays = before < cut.top_p * all && weight >= least;
        before += weight;
        stays
    });
    stay.count().max(1)
}

/// The tokens that can be drawn and their probabilities, the most probable first. Where those that
/// any cut leaves are known to be among the first, the others are in no order.
struct Ranked {
    tokens: Vec<Token>,
    masses: Vec<f64>,
}

impl Ranked {
    fn of(dist: &Dist) -> Self {
        let mut both = dist.support().collect::<Vec<_>>();
        let likelier = |a: &(Token, f64), b: &(Token, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        let mut first = both.len();
        if first > FIRST {
            both.select_nth_unstable_by(FIRST, likelier);
            let mass = both[..FIRST].iter().map(|(_, mass)| mass).sum::<f64>();
            let most = both[..FIRST].iter().map(|(_, mass)| *mass).fold(0.0, f64::max);
            // Then no cut goes further: neither the largest top_p nor the smallest min_p.
            if mass >= MOST_TOP_P && both[FIRST].1 < LEAST_MIN_P * most {
                first = FIRST;
            }
        }
        both[..first].sort_unstable_by(likelier);
        let (tokens, masses) = both.into_iter().unzip();
        Self { tokens, masses }
    }

    fn place(&self, token: Token) -> Option<usize> {
        self.tokens.iter().position(|&other| other == token)
    }

    /// The distribution with these weights of the first tokens, at the token in this place.
    fn cut(&self, weights: &[f64], place: Option<usize>) -> SettingAtToken {
        let all = sum(weights);
        let own = |at: usize| weights.get(at).map_or(0.0, |weight| weight / all);
        let above = |weight: f64, mass: f64| (weight / all - mass).max(0.0);
        SettingAtToken {
            ratio: place.map(|at| own(at) / self.masses[at]),
            distance: sum_of(weights, &self.masses[..weights.len()], above),
        }
    }

    /// The target's distribution without the tokens that a cut removes by this order.
    fn cut_from(&self, target: &Dist, cut: &Cut, token: Token) -> SettingAtToken {
        let left = &self.tokens[..kept(&self.masses, sum(&self.masses), cut)];
        let mass = left.iter().map(|&token| target.p(token)).sum::<f64>();
        let possible = target.p(token) > 0.0;
        if mass <= 0.0 {
            // No such decoder could draw a token here.
            return SettingAtToken { ratio: possible.then_some(1.0), distance: 0.0 };
        }
        let own = if left.contains(&token) { 1.0 / mass } else { 0.0 };
        SettingAtToken { ratio: possible.then_some(own), distance: (1.0 - mass).max(0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a cut of the grid that may leave more tokens than are put in order.
    #[test]
    fn cuts_leave_tokens_that_are_in_order() {
        for (_, cut) in cuts() {
            assert!(cut.top_k <= FIRST || cut.top_k == usize::MAX, "{}", cut.summary);
            assert!(cut.top_p <= MOST_TOP_P || cut.top_p == 1.0, "{}", cut.summary);
            assert!(cut.min_p >= LEAST_MIN_P || cut.min_p == 0.0, "{}", cut.summary);
        }
        // Steep, so that few are put in order; flat at first; flat everywhere.
        let steep = |at: usize| 0.5_f64.powf(at as f64 / 20.0) + 1e-9;
        let plateau = |at: usize| if at < 300 { 1.0 } else { 1e-6 };
        let weights: [&dyn Fn(usize) -> f64; 3] = [&steep, &plateau, &|_| 1.0];
        for (weight, in_order) in weights.into_iter().zip([FIRST, 2_000, 2_000]) {
            let dist = Dist::from_weights((0..2_000).map(|at| weight(at * 7 % 2_000)).collect());
            let dist = dist.unwrap();
            let ranked = Ranked::of(&dist);
            let sorted = ranked.masses.windows(2).take_while(|pair| pair[0] >= pair[1]).count() + 1;
            assert!(sorted >= in_order, "{sorted}");
            let mut all = dist.support().map(|(_, mass)| mass).collect::<Vec<_>>();
            all.sort_by(|a, b| b.total_cmp(a));
            for (_, cut) in cuts().filter(|(_, cut)| !cut.is_none()) {
                let [own, whole] = [&ranked.masses, &all].map(|m| kept(m, 1.0, cut));
                assert_eq!(own, whole, "{}", cut.summary);
                assert_eq!(ranked.masses[..own], all[..own], "{}", cut.summary);
            }
        }
    }
}
