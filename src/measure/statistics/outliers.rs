//! Prompts whose times are far from the others', and their influence on a speedup.

use std::collections::BTreeMap;

use super::interval::MIN_PROMPTS;
use super::quantile::median;
use super::speedup::{PairedTime, speedup};

/// A value is far from the others if its logarithm is at least this many robust standard
/// deviations from the median (Iglewicz and Hoaglin 1993, "How to Detect and Handle
/// Outliers") and it passes [`FACTOR`], too.
const FAR: f64 = 3.5;

/// A far value must also be at least this many times the median, or at most the median divided by
/// this. If times hardly vary, even small differences are many standard deviations.
const FACTOR: f64 = 1.5;

/// The median absolute deviation of a normal distribution, in standard deviations.
const MAD: f64 = 0.6745;

/// The value by which a prompt is far from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Time per pass of plain decoding, which means that the machine was disturbed.
    Plain,
    /// Time per round of the cell: a disturbance, or unusual drafts.
    Cell,
    /// Its speedup alone: an unusual prompt.
    Speedup,
}

/// A prompt that is far from the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlier<'a> {
    /// The prompt.
    pub prompt: &'a str,
    /// The first of its sides that is far.
    pub side: Side,
    /// The value of that side ÷ its median over the prompts.
    pub factor: f64,
    /// The speedup without the prompt.
    pub without: f64,
    /// Speedup of all prompts ÷ speedup without this one − 1.
    pub influence: f64,
}

/// The prompts that are far from the others, in order of their names. Empty with fewer than
/// [`MIN_PROMPTS`] prompts, which are too few to judge.
pub fn outliers<'a>(pairs: &BTreeMap<&'a str, PairedTime>) -> Vec<Outlier<'a>> {
    if pairs.len() < MIN_PROMPTS {
        return Vec::new();
    }
    let side = |of: fn(&PairedTime) -> Option<f64>| far(pairs.values().map(of));
    let sides = [
        (Side::Plain, side(|p| super::ratio(p.plain_us, p.plain_passes as f64))),
        (Side::Cell, side(|p| super::ratio(p.us, p.passes as f64))),
        (Side::Speedup, side(|p| speedup([p]))),
    ];
    let outlier = |(i, &prompt): (usize, &&'a str)| {
        let (side, factor) = sides.iter().find_map(|(side, factors)| Some((*side, factors[i]?)))?;
        let without = speedup(pairs.iter().filter(|(p, _)| **p != prompt).map(|(_, t)| t))?;
        let influence = speedup(pairs.values())? / without - 1.0;
        Some(Outlier { prompt, side, factor, without, influence })
    };
    pairs.keys().enumerate().filter_map(outlier).collect()
}

/// For each value, its ratio to the median if it is far, else `None`.
fn far(values: impl Iterator<Item = Option<f64>>) -> Vec<Option<f64>> {
    let logs = values.map(|x| x.map(f64::ln).filter(|x| x.is_finite())).collect::<Vec<_>>();
    let known = logs.iter().flatten().copied().collect::<Vec<_>>();
    let middle = median(&known).unwrap_or(0.0);
    let distances = known.iter().map(|x| (x - middle).abs()).collect::<Vec<_>>();
    let limit = (FAR / MAD * median(&distances).unwrap_or(0.0)).max(FACTOR.ln());
    let factor = |x: f64| ((x - middle).abs() >= limit).then(|| (x - middle).exp());
    logs.into_iter().map(|x| factor(x?)).collect()
}
