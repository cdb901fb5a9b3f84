//! The toy pair, prompt and end tokens on which a method is certified.

use crate::bugs::PROMPT;
use crate::model::ToyPair;
use crate::model::zoo::{ToyEntry, random};

/// A toy pair by name or number.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// A named pair, with the prompt that all named pairs share.
    Named(&'static ToyEntry),
    /// A random pair with a random prompt and random end tokens.
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

/// The mean number of possible next tokens, in the model of the pair that has more.
pub(super) fn choices(pair: &ToyPair) -> usize {
    let possible = |dist: &Vec<f64>| dist.iter().filter(|p| **p > 0.0).count() as f64;
    let mean = |dists: Vec<f64>| dists.iter().sum::<f64>() / dists.len() as f64;
    let [target, draft] =
        [&pair.target, &pair.draft].map(|table| mean(table.values().map(possible).collect()));
    target.max(draft).round() as usize
}
