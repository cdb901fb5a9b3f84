//! The joint distribution of the first N tokens as a table, and the difference between two of them.

use std::collections::BTreeMap;

use super::reference::TableRows;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::{History, Logits, Sampler};
use crate::model::{LanguageModel, Toy};

/// Probability of every possible completion of N tokens, or of fewer if an end token comes earlier.
pub type JointDistribution = BTreeMap<Vec<Token>, f64>;

/// The largest difference that rounding may cause: a probability is a sum of at
/// most 1e5 path weights, each a product of at most 50 factors, which stays
/// two orders of magnitude below this.
pub const TOLERANCE: f64 = 1e-12;

/// Whether an error exceeds rounding. NaN does.
pub(super) fn off(error: f64) -> bool {
    error.is_nan() || error > TOLERANCE
}

/// The larger of two errors. NaN is the largest, whereas `f64::max` ignores it.
pub(super) fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() || b <= a { a } else { b }
}

/// The distribution of ancestral sampling from the processed target: the reference for every
/// lossless method.
///
/// It is read directly from the toy's table, without a session, a cache, a draft or the decode
/// loop, so none of their mistakes can affect both sides. A completion has `tokens` tokens, or ends
/// with the first end token.
///
/// # Errors
/// If the sampler leaves no token in some context.
pub fn target_distribution(
    target: &Toy,
    sampler: &Sampler,
    prompt: &[Token],
    tokens: usize,
) -> Result<JointDistribution, Error> {
    let ended =
        |completion: &[Token]| completion.last().is_some_and(|t| target.info().eos.contains(t));
    let mut dist = JointDistribution::from([(Vec::new(), 1.0)]);
    for _ in 0..tokens {
        let mut longer = JointDistribution::new();
        for (completion, mass) in dist {
            if ended(&completion) {
                longer.insert(completion, mass);
                continue;
            }
            let context = [prompt, &completion].concat();
            for (token, p) in row(target, sampler, prompt.len(), &context)? {
                longer.insert([&completion[..], &[token]].concat(), mass * p);
            }
        }
        dist = longer;
    }
    Ok(dist)
}

/// The processed distribution after `context`, which begins with a prompt of `prompt_len`
/// tokens, by the table alone.
pub(super) fn row(
    model: &dyn TableRows,
    sampler: &Sampler,
    prompt_len: usize,
    context: &[Token],
) -> Result<Vec<(Token, f64)>, Error> {
    let (prompt, drafted) = context.split_at(prompt_len);
    let logits = Logits::F64(model.after(prompt, drafted)?);
    let history = History { prompt_len, context, drafted: &[] };
    let dist =
        sampler.distribution(&logits, history).map_err(Error::distribution("the toy target"))?;
    Ok(dist.support().collect())
}

/// The difference between a distribution and the expected one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Gap {
    /// Total variation of the joint distributions.
    pub tv_joint: f64,
    /// Total variation of the first token alone: what a test of single tokens would detect.
    pub tv_first_token: f64,
    /// The largest difference in the probability of one sequence.
    pub max_error: f64,
    /// The difference between the total mass of the found distribution and 1.
    pub mass_error: f64,
    /// Mass on sequences that the target cannot generate.
    pub out_of_support: f64,
}

impl Gap {
    /// The difference between a found distribution and the expected one.
    pub fn between(found: &JointDistribution, expected: &JointDistribution) -> Self {
        let (errors, outside) = differences(found, expected);
        let (first, _) = differences(&first_tokens(found, 1), &first_tokens(expected, 1));
        Self {
            tv_joint: 0.5 * errors.iter().sum::<f64>(),
            tv_first_token: 0.5 * first.iter().sum::<f64>(),
            max_error: errors.iter().copied().fold(0.0, worse),
            mass_error: (found.values().sum::<f64>() - 1.0).abs(),
            out_of_support: outside,
        }
    }

    /// Whether the distributions are equal up to rounding. Any NaN is a difference.
    pub fn is_zero(&self) -> bool {
        self.tv_joint <= TOLERANCE && self.max_error <= TOLERANCE && self.mass_error <= TOLERANCE
    }
}

fn differences(found: &JointDistribution, expected: &JointDistribution) -> (Vec<f64>, f64) {
    let mut outside = 0.0;
    let mut errors = Vec::with_capacity(expected.len());
    for (completion, p) in found {
        let target = expected.get(completion).copied().unwrap_or(0.0);
        if target == 0.0 {
            outside += p;
        }
        errors.push((p - target).abs());
    }
    errors.extend(
        expected.iter().filter(|(completion, _)| !found.contains_key(*completion)).map(|(_, p)| *p),
    );
    (errors, outside)
}

/// The distribution of the first `count` tokens.
pub(super) fn first_tokens(dist: &JointDistribution, count: usize) -> JointDistribution {
    let mut first = JointDistribution::new();
    for (completion, p) in dist {
        *first.entry(completion.iter().take(count).copied().collect()).or_insert(0.0) += p;
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_counts_as_an_error_and_as_the_worst_value() {
        assert!(off(f64::NAN) && off(2.0 * TOLERANCE) && !off(TOLERANCE));
        assert!(worse(1.0, f64::NAN).is_nan() && worse(f64::NAN, 1.0).is_nan());
        assert_eq!((worse(1.0, 2.0), worse(2.0, 1.0)), (2.0, 2.0));
    }
}
