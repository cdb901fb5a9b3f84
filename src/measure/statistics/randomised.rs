//! The sign-flip test. It counts all sign patterns if there are few enough.

use super::paired::sign_flip;

/// Up to this many differences, all sign patterns are counted: 32768 pairs of opposite patterns.
pub const MOST_EXACT: usize = 16;

/// The result of a two-sided sign-flip test of paired differences.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Randomised {
    /// The mean of the differences: the test statistic.
    pub mean: f64,
    /// The p-value.
    pub p: f64,
    /// Whether all sign patterns were counted. Otherwise p = (1 + hits) / (1 + draws), where a
    /// hit is a random pattern at least as extreme as the data (Phipson and Smyth 2010,
    /// "Permutation P-values Should Never Be Zero", Stat. Appl. Genet. Mol. Biol. 9).
    pub exact: bool,
    /// The number of differences that are not zero: n of them cannot give a p-value below
    /// 2^(1 − n).
    pub signs: usize,
}

/// The sign-flip test (Fisher 1935, "The Design of Experiments", section 21): if the two sides
/// of every pair are exchangeable, each difference is equally likely to have the other sign.
/// Counts all sign patterns of up to [`MOST_EXACT`] differences, and else draws `flips` random
/// ones with a fixed seed. `None` without differences.
pub fn randomised(differences: &[f64], flips: usize) -> Option<Randomised> {
    let exact = differences.len() <= MOST_EXACT;
    let p = if exact { every_pattern(differences)? } else { sign_flip(differences, flips)? };
    let mean = differences.iter().sum::<f64>() / differences.len() as f64;
    let signs = differences.iter().filter(|x| **x != 0.0).count();
    Some(Randomised { mean, p, exact, signs })
}

/// The share of all sign patterns whose sum is at least as far from zero as that of the data.
fn every_pattern(differences: &[f64]) -> Option<f64> {
    // A pattern and its opposite are equally far from zero: the first sign need not change.
    let (first, rest) = differences.split_first()?;
    // Sums of the same numbers in another order differ by rounding.
    let reached = differences.iter().sum::<f64>().abs() * (1.0 - 1e-12);
    let patterns = 1usize << rest.len();
    let sum = |pattern: usize| {
        let signed = |(i, x): (usize, &f64)| if pattern >> i & 1 == 0 { *x } else { -x };
        first + rest.iter().enumerate().map(signed).sum::<f64>()
    };
    let as_far = (0..patterns).filter(|&pattern| sum(pattern).abs() >= reached).count();
    Some(as_far as f64 / patterns as f64)
}
