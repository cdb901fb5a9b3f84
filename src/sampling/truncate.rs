//! Temperature, top-k, top-p and min-p without sorting the vocabulary.
//!
//! Top-k is a selection. Top-p first uses a bound to drop tokens that cannot be in the
//! set, then finds the token that crosses top_p by a weighted selection, so no step costs
//! more than a few passes over the vocabulary.

use super::{Logits, SamplingParams, vector};
use crate::distribution::{Dist, DistError, Token};

/// A cumulative mass that falls short of top_p by no more than this counts as reaching
/// it: the rounding of a softmax (1e-16 per term in f64) must not add a token to the
/// set.
const REACHED: f64 = 1e-12;

/// The distribution of `logits` after temperature, top-k, top-p and min-p.
pub(super) fn distribution(logits: &Logits, params: &SamplingParams) -> Result<Dist, DistError> {
    let (top, max) = maximum(logits)?;
    if params.is_greedy() {
        return Ok(Dist::one_hot(logits.len(), top));
    }
    let untruncated = params.top_k == 0 && params.top_p >= 1.0 && params.min_p == 0.0;
    if untruncated {
        return softmax(logits, max, params.temperature);
    }
    let mut kept = candidates(logits, params.top_k);
    weigh(&mut kept, logits, max, params.temperature);
    if params.top_p < 1.0 {
        keep_mass(&mut kept, params.top_p);
    }
    // The most probable token has weight exp(0) = 1, and every step keeps it.
    kept.retain(|&(_, w)| w >= params.min_p);
    Dist::sparse(logits.len(), kept)
}

/// The largest logit and the lowest token that has it.
fn maximum(logits: &Logits) -> Result<(Token, f64), DistError> {
    let best = match logits {
        Logits::F32(x) => match vector::largest(x) {
            Some(max) => {
                let first = x.iter().position(|&x| x == max).unwrap_or(0);
                Ok((first as Token, f64::from(max)))
            }
            None => scan(x.iter().map(|&x| f64::from(x))),
        },
        Logits::F64(x) => scan(x.iter().copied()),
    }?;
    if best.1 == f64::NEG_INFINITY {
        return Err(if logits.is_empty() { DistError::Empty } else { DistError::NothingPossible });
    }
    Ok(best)
}

fn scan(values: impl Iterator<Item = f64>) -> Result<(Token, f64), DistError> {
    let mut best = (0, f64::NEG_INFINITY);
    for (token, value) in values.enumerate() {
        if value.is_nan() || value == f64::INFINITY {
            return Err(DistError::NotFinite { token, value });
        }
        if value > best.1 {
            best = (token as Token, value);
        }
    }
    Ok(best)
}

fn softmax(logits: &Logits, max: f64, temperature: f64) -> Result<Dist, DistError> {
    match logits {
        Logits::F32(x) => {
            Dist::from_weights_f32(vector::weights(x.clone(), max as f32, temperature))
        }
        Logits::F64(x) => {
            Dist::from_weights(x.iter().map(|&x| ((x - max) / temperature).exp()).collect())
        }
    }
}

/// Replaces the logits of `kept` by their weights, the same as in [`softmax`].
fn weigh(kept: &mut [(Token, f64)], logits: &Logits, max: f64, temperature: f64) {
    match logits {
        Logits::F32(_) => {
            let logits = kept.iter().map(|&(_, x)| x as f32).collect();
            let weights = vector::weights(logits, max as f32, temperature);
            kept.iter_mut().zip(weights).for_each(|((_, x), w)| *x = f64::from(w));
        }
        Logits::F64(_) => {
            kept.iter_mut().for_each(|(_, x)| *x = ((*x - max) / temperature).exp());
        }
    }
}

/// The `k` largest logits (all for 0), ties to the lowest ids, in any order.
fn candidates(logits: &Logits, k: usize) -> Vec<(Token, f64)> {
    let mut all = (0..logits.len() as Token)
        // Turns -0 into 0: a zero of either sign is the same logit.
        .map(|token| (token, logits.get(token) + 0.0))
        .collect::<Vec<_>>();
    if k > 0 && k < all.len() {
        all.select_nth_unstable_by(k - 1, descending);
        all.truncate(k);
    }
    all
}

/// Keeps the smallest prefix, in descending order, whose mass is at least `share` of the
/// whole, including the token that crosses the share.
fn keep_mass(kept: &mut Vec<(Token, f64)>, share: f64) {
    // Summed in token order, so that the sum does not depend on the order that the
    // selection leaves.
    kept.sort_unstable_by_key(|&(token, _)| token);
    let total: f64 = kept.iter().map(|&(_, w)| w).sum();
    let goal = share * total - REACHED * total;
    // Together, the tokens below this bound weigh less than (1 - share) × total. The
    // others alone therefore reach the goal, and none of the tokens below can be in the
    // set. The bound is at most the mean, so the largest weight stays.
    let bound = (1.0 - share) * total / kept.len() as f64;
    kept.retain(|&(_, w)| w >= bound);
    let prefix = crossing(kept, goal);
    kept.truncate(prefix);
}

/// Partially orders `items` so that the shortest descending prefix with mass
/// ≥ `goal` comes first, and returns its length: quickselect by mass.
fn crossing(items: &mut [(Token, f64)], goal: f64) -> usize {
    let (mut lo, mut hi, mut before) = (0, items.len(), 0.0);
    while hi - lo > 1 {
        let mid = lo + (hi - lo) / 2;
        items[lo..hi].select_nth_unstable_by(mid - lo, descending);
        let upper: f64 = items[lo..mid].iter().map(|&(_, w)| w).sum();
        if before + upper >= goal {
            hi = mid;
        } else {
            before += upper;
            lo = mid;
        }
    }
    hi
}

fn descending(a: &(Token, f64), b: &(Token, f64)) -> std::cmp::Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}
