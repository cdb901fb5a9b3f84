//! Where methods are tried: a toy pair with a prompt and its end tokens.

use super::mutants::PROMPT;
use crate::model::ToyPair;
use crate::model::zoo::{ToyEntry, random};

/// A toy pair by name or number.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// One that is there for a reason, with the prompt of all such.
    Named(&'static ToyEntry),
    /// One that is random down to its prompt and its end tokens.
    Random(u32),
}

impl Place {
    /// Its name after `toy:`.
    pub(super) fn name(self) -> String {
        match self {
            Self::Named(entry) => entry.name.to_owned(),
            Self::Random(number) => format!("random-{number}"),
        }
    }

    /// The pair, with its prompt.
    pub(super) fn pair(self) -> ToyPair {
        match self {
            Self::Named(entry) => {
                let mut pair = (entry.build)();
                pair.prompt = PROMPT.to_vec();
                pair
            }
            Self::Random(number) => random(number),
        }
    }
}

/// How many tokens are possible after a text, on average, in that model of the
/// pair in which there are more.
pub(super) fn choices(pair: &ToyPair) -> usize {
    let possible = |dist: &Vec<f64>| dist.iter().filter(|p| **p > 0.0).count() as f64;
    let mean = |dists: Vec<f64>| dists.iter().sum::<f64>() / dists.len() as f64;
    let [target, draft] =
        [&pair.target, &pair.draft].map(|table| mean(table.values().map(possible).collect()));
    target.max(draft).round() as usize
}
