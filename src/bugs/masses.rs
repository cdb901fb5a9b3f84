//! The distributions at a token's position, which bugs confuse, and as dense lists, from which those
//! of bugs are computed.

use crate::core::distribution::Dist;

/// The distributions at a position of a sequence, given the tokens before it.
#[derive(Debug, Clone, Copy)]
pub struct PositionDists<'l> {
    /// The target's after all processors, which an exact decoder draws from.
    pub target: &'l Dist,
    /// The target's without processors; none if there are no processors.
    pub raw_target: Option<&'l Dist>,
    /// The target's at the previous position; none at the first.
    pub before: Option<&'l Dist>,
    /// The draft model's after its processors, if it is known.
    pub draft: Option<&'l Dist>,
    /// The draft model's at the previous position; none at the first, or without a draft model.
    pub draft_before: Option<&'l Dist>,
    /// The draft model's without processors; none if there are no processors, or no draft model.
    pub raw_draft: Option<&'l Dist>,
}

/// The distributions of [`PositionDists`], each as the probabilities of all tokens.
#[derive(Debug, Clone)]
pub struct PositionMasses {
    pub(crate) target: Vec<f64>,
    pub(super) raw_target: Option<Vec<f64>>,
    pub(super) before: Option<Vec<f64>>,
    pub(crate) draft: Option<Vec<f64>>,
    pub(super) draft_before: Option<Vec<f64>>,
    pub(super) raw_draft: Option<Vec<f64>>,
    /// norm((p − q)⁺); none without a draft model, and where p = q.
    pub(super) residual: Option<Vec<f64>>,
}

impl PositionMasses {
    /// The dense lists of these distributions.
    pub fn of(dists: &PositionDists<'_>) -> Self {
        let target = dense(dists.target);
        let draft = dists.draft.map(dense);
        Self {
            residual: draft.as_ref().and_then(|draft| residual(&target, draft)),
            raw_target: dists.raw_target.map(dense),
            before: dists.before.map(dense),
            draft_before: dists.draft_before.map(dense),
            raw_draft: dists.raw_draft.map(dense),
            target,
            draft,
        }
    }

    /// p and q, if q is known.
    pub(super) fn pair(&self) -> Option<(&[f64], &[f64])> {
        Some((&self.target, self.draft.as_deref()?))
    }

    /// What rejection sampling keeps of each drafted token: min(p, q).
    pub(super) fn kept(&self) -> Option<Vec<f64>> {
        self.pair().map(|(p, q)| zip(p, q, f64::min))
    }
}

/// The probabilities of all tokens.
pub(crate) fn dense(dist: &Dist) -> Vec<f64> {
    dist.zip(dist, |mass, _| mass)
}

/// `value(p(x), q(x))` of every token.
pub(crate) fn zip(p: &[f64], q: &[f64], value: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    p.iter().zip(q).map(|(&p, &q)| value(p, q)).collect()
}

/// The sum of `value(p(x), q(x))` over all tokens, in lanes that need not wait for each other.
pub(crate) fn sum_of(p: &[f64], q: &[f64], value: impl Fn(f64, f64) -> f64) -> f64 {
    let mut lanes = [0.0; 8];
    let ((p, rest_of_p), (q, rest_of_q)) = (p.as_chunks::<8>(), q.as_chunks::<8>());
    for (p, q) in p.iter().zip(q) {
        for (lane, (&p, &q)) in lanes.iter_mut().zip(p.iter().zip(q)) {
            *lane += value(p, q);
        }
    }
    let rest = rest_of_p.iter().zip(rest_of_q).map(|(&p, &q)| value(p, q));
    lanes.into_iter().chain(rest).sum()
}

pub(crate) fn sum(masses: &[f64]) -> f64 {
    sum_of(masses, masses, |mass, _| mass)
}

/// Masses with a sum of 1; `None` if all are zero.
pub(crate) fn normalised(mut masses: Vec<f64>) -> Option<Vec<f64>> {
    let all = sum(&masses);
    for mass in &mut masses {
        *mass /= all;
    }
    (all > 0.0).then_some(masses)
}

/// norm((p − q)⁺); `None` if p = q.
pub(crate) fn residual(p: &[f64], q: &[f64]) -> Option<Vec<f64>> {
    normalised(zip(p, q, |p, q| (p - q).max(0.0)))
}

/// The tokens with a probability above 0, in order.
pub(crate) fn support(masses: &[f64]) -> impl Iterator<Item = (usize, f64)> + '_ {
    masses.iter().copied().enumerate().filter(|&(_, mass)| mass > 0.0)
}

/// The token with the largest mass; of several, the first.
pub(crate) fn argmax(masses: &[f64]) -> usize {
    let largest = |best: (usize, f64), one: (usize, f64)| if one.1 > best.1 { one } else { best };
    masses.iter().copied().enumerate().fold((0, f64::NEG_INFINITY), largest).0
}

pub(crate) fn one_hot(vocab: usize, token: usize) -> Vec<f64> {
    let mut dist = vec![0.0; vocab];
    dist[token] = 1.0;
    dist
}
