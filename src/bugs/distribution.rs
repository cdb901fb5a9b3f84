//! How a bug changes the distribution of a token.

use super::masses::{PositionMasses, argmax, normalised, residual, sum, sum_of, zip};

/// The distribution of a token in a decoder with a bug. Each list has a probability for every token
/// of the vocabulary.
#[derive(Debug, Clone, PartialEq)]
pub enum BugDistribution {
    /// The same at every position of a round.
    Everywhere(Vec<f64>),
    /// Of a drafted token, or of the token that replaces it. The token after a fully accepted draft
    /// has the target's distribution.
    Drafted {
        /// The probability that the token is drafted and accepted; the round continues.
        accepted: Vec<f64>,
        /// The probability that the draft is rejected and this token replaces it, which ends the
        /// round.
        corrected: Vec<f64>,
    },
    /// Of the token after a fully accepted draft; all other tokens are exact.
    Bonus(Vec<f64>),
}

impl BugDistribution {
    /// Accepts drafted tokens with these probabilities. A rejected token is replaced by a draw from
    /// `replacement`; none is needed if no token is ever rejected.
    pub(super) fn corrected_by(accepted: Vec<f64>, replacement: Option<&[f64]>) -> Self {
        let left = (1.0 - sum(&accepted)).max(0.0);
        let corrected = match replacement {
            Some(dist) => dist.iter().map(|mass| left * mass).collect(),
            None => vec![0.0; accepted.len()],
        };
        Self::Drafted { accepted, corrected }
    }
}

/// The target's distribution at a multiple of its temperature.
pub(super) fn warmed(dist: &[f64], factor: f64) -> Option<BugDistribution> {
    normalised(dist.iter().map(|mass| mass.powf(1.0 / factor)).collect())
        .map(BugDistribution::Everywhere)
}

/// A drafted token is drawn and accepted with this probability, by its p and q.
pub(super) fn accepted_with(
    dists: &PositionMasses,
    kept: fn(f64, f64) -> f64,
) -> Option<BugDistribution> {
    let (target, draft) = dists.pair()?;
    let accepted = zip(target, draft, kept);
    Some(BugDistribution::corrected_by(accepted, dists.residual.as_deref()))
}

/// Drafted tokens with q up to `most` are dropped, and the round ends with a draw from p.
pub(super) fn dropped_up_to(dists: &PositionMasses, most: f64) -> Option<BugDistribution> {
    let (target, draft) = dists.pair()?;
    let dropped = sum_of(draft, draft, |q, _| if q <= most { q } else { 0.0 });
    let accepted = zip(target, draft, |p, q| if q > most { q.min(p) } else { 0.0 });
    let rejected = (1.0 - dropped - sum(&accepted)).max(0.0);
    let corrected = match &dists.residual {
        Some(rest) => zip(target, rest, |p, rest| dropped * p + rejected * rest),
        None => target.iter().map(|p| dropped * p).collect(),
    };
    Some(BugDistribution::Drafted { accepted, corrected })
}

/// The two most probable tokens of the draft are verified one after the other, as if each were
/// drawn from q.
pub(super) fn top_siblings(target: &[f64], draft: &[f64]) -> BugDistribution {
    let mut accepted = vec![0.0; target.len()];
    let (mut left, mut wanted) = (1.0, target.to_vec());
    for token in two_most_probable(draft) {
        let kept = (wanted[token] / draft[token]).min(1.0);
        accepted[token] += left * kept;
        left *= 1.0 - kept;
        wanted = residual(&wanted, draft).unwrap_or(wanted);
    }
    BugDistribution::corrected_by(accepted, Some(&wanted))
}

/// The two most probable tokens; only the first if no other has a probability above 0.
fn two_most_probable(dist: &[f64]) -> impl Iterator<Item = usize> {
    let first = argmax(dist);
    let mut others = dist.to_vec();
    others[first] = 0.0;
    let second = argmax(&others);
    [first].into_iter().chain((others[second] > 0.0).then_some(second))
}

/// Drafts are drawn from one distribution and verified with another.
pub(super) fn drawn_and_verified(
    target: &[f64],
    (drawn, verified): (&[f64], &[f64]),
) -> BugDistribution {
    // A token that neither distribution has is rejected.
    let accept = |p: f64, q: f64| if p < q { p / q } else { f64::from(u8::from(p > 0.0)) };
    let ratio = zip(target, verified, accept);
    let accepted = zip(drawn, &ratio, |q, ratio| q * ratio);
    // Tokens are rejected even where p equals the verified q; then a draw from p replaces them.
    let residual = residual(target, verified);
    BugDistribution::corrected_by(accepted, Some(residual.as_deref().unwrap_or(target)))
}
