//! The random numbers of a sampled round.

use super::round::{ExternalChance, total};
use crate::core::chance::{Chance, Purpose, Request, Seeded, Site};
use crate::core::error::Error;

/// The largest number of random numbers in a round.
pub(super) const MOST_DRAWS: usize = 1 << 20;

/// The random numbers of a round.
#[derive(Debug)]
pub(super) struct SampledChance {
    seeded: Seeded,
    draws: usize,
    /// The first request that was refused.
    pub(super) refused: Option<Error>,
}

impl SampledChance {
    pub(super) fn new(seed: u64, round: u64) -> Self {
        let mut seeded = Seeded::new(Request { seed, prompt: "external", repeat: 0 });
        seeded.begin_round(round);
        Self { seeded, draws: 0, refused: None }
    }

    fn unit(&mut self, purpose: Purpose) -> f64 {
        self.draws += 1;
        self.seeded.uniform(Site { purpose, node: self.draws })
    }

    /// An index, drawn with probability proportional to its weight.
    pub(super) fn index(&mut self, purpose: Purpose, weights: &[f64], total: f64) -> usize {
        let (mut rest, mut last) = (self.unit(purpose) * total, 0);
        for (index, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            last = index;
            if rest < weight {
                break;
            }
            rest -= weight;
        }
        last
    }

    /// A draw, if there may be more of them in this round. Notes the first error.
    fn limited<T>(&mut self, draw: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        let found = match self.draws {
            ..MOST_DRAWS => draw(self),
            _ => Err(Error::input(format!("it draws more than {MOST_DRAWS} numbers in a round"))),
        };
        if let Err(error) = &found {
            self.refused.get_or_insert(error.clone());
        }
        found
    }
}

impl ExternalChance for SampledChance {
    fn choose(&mut self, weights: &[f64]) -> Result<usize, Error> {
        self.limited(|chance| Ok(chance.index(Purpose::Residual, weights, total(weights)?)))
    }

    fn uniform(&mut self) -> Result<f64, Error> {
        self.limited(|chance| Ok(chance.unit(Purpose::Accept)))
    }
}
