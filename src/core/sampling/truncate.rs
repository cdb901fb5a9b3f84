//! Temperature, top-k, top-p and min-p without sorting the vocabulary.
//!
//! Every cut is a threshold: a selection among a few candidates finds the last token to keep, and
//! one pass keeps all tokens before it in descending order. The tokens stay in ascending order of
//! their ids throughout.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::vector::{BLOCK, Score};
use super::{Logits, SamplingParams};
use crate::core::distribution::{Dist, DistError, Token, TokenWeights};

/// A cumulative mass that falls short of top_p by no more than this counts as reaching
/// it: the rounding of a softmax (1e-16 per term in f64) must not add a token to the
/// set.
const REACHED: f64 = 1e-12;
/// The largest error of the logarithm of a computed weight: for nonzero weights the exponents are
/// below 100, with a relative error of a few 1e-7 in f32.
const LOG_ERROR: f64 = 1e-3;
/// From this number of entries on, masses are first summed by levels.
const MANY: usize = 256;

/// The distribution of `logits` after temperature, top-k, top-p and min-p.
pub(super) fn distribution(logits: &Logits, params: &SamplingParams) -> Result<Dist, DistError> {
    match logits {
        Logits::F32(scores) => of_scores(scores, params),
        Logits::F64(scores) => of_scores(scores, params),
    }
}

/// The logarithm of the sum of `exp(x)` over all logits: log p of a token is its logit minus this.
/// For f32 logits it has the same bits on every processor, and an error below 1e-6.
pub(crate) fn log_mass(logits: &Logits) -> Result<f64, DistError> {
    match logits {
        Logits::F32(scores) => log_mass_of(scores),
        Logits::F64(scores) => log_mass_of(scores),
    }
}

/// The same, with the `count` tokens with the largest logits, best first. Ties go to the lowest id,
/// and impossible tokens are left out.
pub(crate) fn log_mass_and_best(
    logits: &Logits,
    count: usize,
) -> Result<(f64, Vec<Token>), DistError> {
    match logits {
        Logits::F32(scores) => log_mass_and_best_of(scores, count),
        Logits::F64(scores) => log_mass_and_best_of(scores, count),
    }
}

fn log_mass_of<S: Score>(scores: &[S]) -> Result<f64, DistError> {
    Ok(mass_below(scores, peaks(scores)?.1))
}

/// [`log_mass`] of scores whose largest is `max`.
fn mass_below<S: Score>(scores: &[S], max: f64) -> f64 {
    max + libm::log(S::weights(scores, max, 1.0).mass())
}

fn log_mass_and_best_of<S: Score>(
    scores: &[S],
    count: usize,
) -> Result<(f64, Vec<Token>), DistError> {
    let (peaks, max) = peaks(scores)?;
    let entry = |token: Token| (token, scores[token as usize].into());
    let mut tokens = candidates(scores, &peaks, count.max(1), f64::NEG_INFINITY);
    tokens.retain(|&token| entry(token).1 > f64::NEG_INFINITY);
    tokens.sort_unstable_by(|&a, &b| descending(&entry(a), &entry(b)));
    tokens.truncate(count);
    Ok((mass_below(scores, max), tokens))
}

/// The largest score of each block, and of all.
fn peaks<S: Score>(scores: &[S]) -> Result<(Vec<S>, f64), DistError> {
    let peaks = S::peaks(scores).ok_or_else(|| not_finite(scores))?;
    let max = peaks.iter().map(|&x| x.into()).fold(f64::NEG_INFINITY, f64::max);
    match max {
        f64::NEG_INFINITY if scores.is_empty() => Err(DistError::Empty),
        f64::NEG_INFINITY => Err(DistError::NothingPossible),
        _ => Ok((peaks, max)),
    }
}

fn of_scores<S: Score>(scores: &[S], params: &SamplingParams) -> Result<Dist, DistError> {
    let (peaks, max) = peaks(scores)?;
    if params.is_greedy() {
        return Ok(Dist::one_hot(scores.len(), at_least(scores, &peaks, max)[0]));
    }
    let cuts_mass = params.top_p < 1.0;
    if params.top_k == 0 && !cuts_mass && params.min_p == 0.0 {
        return Ok(Dist::from_weights_of(S::weights(scores, max, params.temperature)));
    }
    // Top-p needs the mass of all tokens that top-k leaves.
    let min_p = if cuts_mass { 0.0 } else { params.min_p };
    let least = weighing(min_p, max, params.temperature);
    let tokens = candidates(scores, &peaks, params.top_k, least);
    let weights = S::weights(&chosen(scores, &tokens), max, params.temperature);
    let mut kept = if cuts_mass {
        with_mass(&tokens, &weights, params.top_p)
    } else {
        entries(&tokens, weights.values()).collect()
    };
    // The most probable token has weight exp(0) = 1, and every step keeps it.
    kept.retain(|&(_, w)| w >= params.min_p);
    Dist::sparse(scores.len(), kept)
}

/// Names the first score that is NaN or +inf.
fn not_finite<S: Score>(scores: &[S]) -> DistError {
    let mut values = scores.iter().map(|&x| x.into()).enumerate();
    let unsound = |&(_, x): &(usize, f64)| x.is_nan() || x == f64::INFINITY;
    let (token, value) = values.find(unsound).unwrap_or_default();
    DistError::NotFinite { token, value }
}

/// A lower bound on the scores of tokens with a weight of at least `weight`, if the largest score
/// is `max`.
fn weighing(weight: f64, max: f64, temperature: f64) -> f64 {
    // Below this temperature the scale of the weights is limited.
    max + temperature.max(f32::MIN_POSITIVE.into()) * (weight.ln() - LOG_ERROR)
}

/// The `k` tokens with the largest scores (all for 0), ties to the lowest ids, of those
/// that reach `least`.
fn candidates<S: Score>(scores: &[S], peaks: &[S], k: usize, least: f64) -> Vec<Token> {
    if k == 0 || k >= scores.len() {
        return at_least(scores, peaks, least);
    }
    // At least k tokens reach the k-th largest of the blocks' largest scores.
    let mut tokens = at_least(scores, peaks, nth_largest(peaks, k).max(least));
    if k < tokens.len() {
        let order = |&a: &Token, &b: &Token| {
            let entry = |token: Token| (token, scores[token as usize].into());
            descending(&entry(a), &entry(b))
        };
        let mut ranked = tokens.clone();
        let (_, &mut last, _) = ranked.select_nth_unstable_by(k - 1, order);
        tokens.retain(|token| order(token, &last).is_le());
    }
    tokens
}

/// The `k`-th largest; −inf if there are fewer.
fn nth_largest<S: Score>(peaks: &[S], k: usize) -> f64 {
    let mut peaks = peaks.iter().map(|&x| x.into()).collect::<Vec<f64>>();
    if k > peaks.len() {
        return f64::NEG_INFINITY;
    }
    *peaks.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a)).1
}

/// The tokens whose score is at least `least`.
fn at_least<S: Score>(scores: &[S], peaks: &[S], least: f64) -> Vec<Token> {
    if least == f64::NEG_INFINITY {
        return (0..scores.len() as Token).collect();
    }
    let mut tokens = Vec::new();
    for (i, (block, &peak)) in scores.chunks(BLOCK).zip(peaks).enumerate() {
        if peak.into() >= least {
            let ids = (i * BLOCK) as Token..;
            let kept = ids.zip(block).filter(|&(_, &x)| x.into() >= least);
            tokens.extend(kept.map(|(token, _)| token));
        }
    }
    tokens
}

/// The scores of these tokens.
fn chosen<'s, S: Score>(scores: &'s [S], tokens: &[Token]) -> Cow<'s, [S]> {
    if tokens.len() == scores.len() {
        return Cow::Borrowed(scores);
    }
    tokens.iter().map(|&token| scores[token as usize]).collect()
}

fn entries<S: Score>(tokens: &[Token], weights: &[S]) -> impl Iterator<Item = (Token, f64)> {
    tokens.iter().zip(weights).map(|(&token, &w)| (token, w.into()))
}

/// The smallest prefix, in descending order, whose mass is at least `share` of the
/// whole, including the token that crosses the share.
fn with_mass<S: Score>(
    tokens: &[Token],
    weights: &TokenWeights<S>,
    share: f64,
) -> Vec<(Token, f64)> {
    let total = weights.mass();
    let goal = share * total - REACHED * total;
    // The total weight of the tokens below this bound is less than (1 - share) × total. So the
    // other tokens reach the goal, and no token below can be in the set. The bound is at most the
    // mean, so the largest weight stays.
    let bound = (1.0 - share) * total / tokens.len() as f64;
    let mut kept = reaching(tokens, weights.values(), bound);
    let (last, least) = crossing(&kept, goal);
    kept.retain(|&(token, w)| w > least || (w == least && token <= last));
    kept
}

/// The tokens with a weight of at least `bound`.
fn reaching<S: Score>(tokens: &[Token], weights: &[S], bound: f64) -> Vec<(Token, f64)> {
    let (mut kept, mut block) = (Vec::new(), [(0, 0.0); BLOCK]);
    for (tokens, weights) in tokens.chunks(BLOCK).zip(weights.chunks(BLOCK)) {
        // Most blocks have no such token, and this test is vectorised.
        if !weights.iter().fold(false, |any, &w| any | (w.into() >= bound)) {
            continue;
        }
        // The processor could hardly predict which tokens reach the bound, so this code does not
        // branch.
        let mut len = 0;
        for entry in entries(tokens, weights) {
            block[len] = entry;
            len += usize::from(entry.1 >= bound);
        }
        kept.extend_from_slice(&block[..len]);
    }
    kept
}

/// The last entry of the shortest descending prefix with mass ≥ `goal`. It lies in the first level
/// up to whose end the mass reaches the goal.
fn crossing(entries: &[(Token, f64)], goal: f64) -> (Token, f64) {
    if entries.len() < MANY {
        return crossing_few(&mut entries.to_vec(), goal);
    }
    let (lowest, highest) = entries.iter().fold((u64::MAX, 0), |(lowest, highest), &(_, w)| {
        (level(w).min(lowest), level(w).max(highest))
    });
    let mut masses = vec![0.0; (highest - lowest + 1) as usize];
    for &(_, w) in entries {
        masses[(level(w) - lowest) as usize] += w;
    }
    let (mut crossed, mut before) = (highest, 0.0);
    // If rounding keeps the sum below the goal, the lowest level is the right one.
    while crossed > lowest && before + masses[(crossed - lowest) as usize] < goal {
        before += masses[(crossed - lowest) as usize];
        crossed -= 1;
    }
    let mut among =
        entries.iter().copied().filter(|&(_, w)| level(w) == crossed).collect::<Vec<_>>();
    crossing_few(&mut among, goal - before)
}

/// The level of a weight; larger weights have higher levels, sixteen per power of two.
fn level(weight: f64) -> u64 {
    weight.to_bits() >> (f64::MANTISSA_DIGITS - 1 - 4)
}

/// As [`crossing`], by quickselect.
fn crossing_few(items: &mut [(Token, f64)], goal: f64) -> (Token, f64) {
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
    items[lo]
}

fn descending(a: &(Token, f64), b: &(Token, f64)) -> Ordering {
    // Adding 0 turns −0 into 0: a zero of either sign is the same score.
    (b.1 + 0.0).total_cmp(&(a.1 + 0.0)).then(a.0.cmp(&b.0))
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::*;

    /// Rows with many ties and impossible tokens, of every length around a block.
    #[test]
    fn the_best_tokens_are_those_of_a_sort() {
        let mut rng = ChaCha8Rng::seed_from_u64(62);
        for count in [1, 2, 63, 64, 65, 1_000, 4_097] {
            for levels in [2, 9, 1_000_000] {
                let mut level = || rng.next_u32() % levels;
                let score = |level: u32| if level == 0 { f32::NEG_INFINITY } else { level as f32 };
                let mut row = (0..count).map(|_| score(level())).collect::<Vec<_>>();
                row[count / 2] = 1.5;
                let row = Logits::F32(row);
                for wanted in [0, 1, 2, 8, 70, 5_000] {
                    let (mass, tokens) = log_mass_and_best(&row, wanted).unwrap();
                    assert_eq!(tokens, row.largest(wanted), "{count} {levels} {wanted}");
                    assert_eq!(mass, log_mass(&row).unwrap());
                }
            }
        }
    }

    /// Rows of every length around a block, narrow and wide, against the same sum in f64.
    #[test]
    fn log_mass_is_within_its_stated_error() {
        let mut rng = ChaCha8Rng::seed_from_u64(61);
        let mut unit = || f64::from(rng.next_u32()) / f64::from(u32::MAX) - 0.5;
        for width in [1e-3, 1.0, 20.0, 200.0] {
            for count in [1, 2, 15, 16, 17, 255, 256, 257, 1_000, 50_003] {
                let row = (0..count).map(|_| (width * unit()) as f32).collect::<Vec<_>>();
                let max = f64::from(row.iter().copied().fold(f32::MIN, f32::max));
                let mass = row.iter().map(|&x| (f64::from(x) - max).exp()).sum::<f64>();
                let found = log_mass(&Logits::F32(row)).unwrap();
                assert!((found - max - mass.ln()).abs() < 1e-6, "{count} within {width}");
            }
        }
    }
}
