//! Survival: the probability that verification keeps a draft up to a position.

use super::interval::{Interval, Ratio};
use super::ratio;
use super::rounds::CountedRound;
use super::sample::{Sample, by_prompt, rounds};

/// Counts of reached and accepted draft positions, from 1.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survival {
    reached: Vec<usize>,
    survived: Vec<usize>,
}

impl Survival {
    /// Counts rounds: position `i` is reached if the draft was that deep and all
    /// positions before it were accepted.
    pub fn of(rounds: impl IntoIterator<Item = CountedRound>) -> Self {
        let mut counts = Self::default();
        for round in rounds {
            let reached = round.depth.min(round.entered());
            if counts.reached.len() < reached {
                counts.reached.resize(reached, 0);
                counts.survived.resize(reached, 0);
            }
            for n in &mut counts.reached[..reached] {
                *n += 1;
            }
            for n in counts.survived[..round.accepted.min(reached)].iter_mut() {
                *n += 1;
            }
        }
        counts
    }

    /// The last position that was reached.
    pub fn positions(&self) -> usize {
        self.reached.len()
    }

    /// Rounds that reached position `i ≥ 1`.
    pub fn reached(&self, i: usize) -> usize {
        self.reached.get(i - 1).copied().unwrap_or(0)
    }

    /// Rounds that reached and accepted position `i ≥ 1`.
    pub fn survived(&self, i: usize) -> usize {
        self.survived.get(i - 1).copied().unwrap_or(0)
    }

    /// survived / reached at position `i ≥ 1`.
    pub fn conditional(&self, i: usize) -> Option<f64> {
        ratio(self.survived(i) as f64, self.reached(i) as f64)
    }

    /// S(i) for all positions: the running product of the conditionals. A round
    /// whose draft was shorter than i does not lower S(i).
    pub fn curve(&self) -> Vec<f64> {
        let mut product = 1.0;
        (1..=self.positions())
            .map(|i| {
                product *= self.conditional(i).unwrap_or(0.0);
                product
            })
            .collect()
    }
}

/// S(i) with its uncertainty, by position from 1.
pub fn survival_ratios(samples: &[Sample]) -> Vec<Ratio> {
    let prompts = by_prompt(samples).into_values().map(|s| Survival::of(rounds(s)));
    let prompts = prompts.collect::<Vec<_>>();
    let positions = prompts.iter().map(Survival::positions).max().unwrap_or(0);
    let conditional = |i: usize| {
        Ratio::of(prompts.iter().map(|s| ([s.survived(i) as f64], [s.reached(i) as f64])))
    };
    let mut survival = Ratio::default().at_most_one();
    let product = (1..=positions).map(|i| {
        survival = survival.clone().times(&conditional(i));
        survival.clone()
    });
    product.collect()
}

/// The intervals of S(i), by position from 1; 0 to 1 where there is none. S never rises, so what
/// bounds it from above at a position also does at all later ones, and what bounds it from below
/// also does at all earlier ones.
pub fn survival_intervals(ratios: &[Ratio]) -> Vec<Interval> {
    let own = ratios.iter().map(Ratio::interval);
    let mut bounds =
        own.map(|own| own.unwrap_or(Interval { lo: 0.0, hi: 1.0 })).collect::<Vec<_>>();
    for i in 1..bounds.len() {
        bounds[i].hi = bounds[i].hi.min(bounds[i - 1].hi);
    }
    for i in (1..bounds.len()).rev() {
        bounds[i - 1].lo = bounds[i - 1].lo.max(bounds[i].lo);
    }
    bounds
}
