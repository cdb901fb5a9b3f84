//! Tests of paired times: whether two ways of decoding differ on the same prompts, and
//! which fixed length a draft length policy is compared with.

use std::collections::BTreeMap;

use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use super::resamples::SEED;
use super::speedup::{PairedTime, speedup};

/// The significance level of a difference, after Holm.
pub const LEVEL: f64 = 0.01;

/// The number of random sign patterns per test in a table of `tests` tests. The smallest possible
/// p-value, 1 / (patterns + 1), is then at most a tenth of the value that Holm requires of the
/// smallest one.
pub fn flips(tests: usize) -> usize {
    1_000 * tests.max(10) - 1
}

/// The result of one test of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignFlip {
    /// The tested statistic: the mean over prompts of the log of the ratio of both sides'
    /// times per token. Above 0 the second side is faster.
    pub mean_log: f64,
    /// The p-value by itself.
    pub p: f64,
    /// The p-value after Holm's adjustment for all tests of the table.
    pub adjusted: f64,
    /// Whether this number of prompts could show a difference: if all n prompts have the same sign,
    /// p is 2^(1 − n).
    pub possible: bool,
}

impl SignFlip {
    /// Whether a difference is shown.
    pub fn differs(&self) -> bool {
        self.adjusted < LEVEL
    }

    /// The conclusion about the second side, given the ratio of all times. The test is of the ratios
    /// of single prompts, so that ratio may point the other way.
    pub fn verdict(&self, ratio: Option<f64>) -> &'static str {
        match ratio {
            Some(ratio) if self.differs() => match (self.mean_log > 0.0, ratio > 1.0) {
                (true, true) => "faster",
                (false, false) => "slower",
                _ => "mixed",
            },
            _ if self.possible => "no difference shown",
            _ => "too few prompts to tell",
        }
    }
}

/// The sign-flip tests of a table, adjusted for their number; `None` for a test without
/// pairs that took time.
pub fn sign_flips(tests: &[Vec<PairedTime>]) -> Vec<Option<SignFlip>> {
    sign_flip_tests(&tests.iter().map(|pairs| log_ratios(pairs)).collect::<Vec<_>>())
}

/// [`sign_flips`] of a table that lists each prompt's log ratio.
pub fn sign_flip_tests(logs: &[Vec<f64>]) -> Vec<Option<SignFlip>> {
    let number = logs.iter().filter(|logs| !logs.is_empty()).count();
    let raw = logs.iter().map(|logs| sign_flip(logs, flips(number))).collect::<Vec<_>>();
    let mut adjusted = holm(&raw.iter().copied().flatten().collect::<Vec<_>>()).into_iter();
    let possible = |prompts: usize| number as f64 * 0.5_f64.powi(prompts as i32 - 1) < LEVEL;
    let tests = raw.iter().zip(logs).map(|(p, logs)| {
        let mean_log = logs.iter().sum::<f64>() / logs.len() as f64;
        let (p, adjusted) = ((*p)?, adjusted.next()?);
        Some(SignFlip { mean_log, p, adjusted, possible: possible(logs.len()) })
    });
    tests.collect()
}

/// For each prompt that took time, the log of the ratio of both sides' times per token.
pub fn log_ratios(pairs: &[PairedTime]) -> Vec<f64> {
    pairs.iter().filter_map(|pair| Some(speedup([pair])?.ln())).collect()
}

/// The two-sided p-value of the sign-flip test (Fisher 1935) of some [`log_ratios`]: if the two
/// sides of a pair differ only by noise that has the same distribution for both, the log of their
/// ratio is equally likely to have either sign. The statistic is the mean of the logs, compared
/// with its value under `flips` random sign patterns. `None` without pairs that took time.
pub fn sign_flip(logs: &[f64], flips: usize) -> Option<f64> {
    if logs.is_empty() {
        return None;
    }
    let observed = logs.iter().sum::<f64>().abs();
    // Sums of the same numbers in another order differ by rounding.
    let reached = observed * (1.0 - 1e-12);
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let as_large = (0..flips).filter(|_| {
        let flipped = logs.iter().map(|x| if rng.next_u32() & 1 == 0 { *x } else { -x });
        flipped.sum::<f64>().abs() >= reached
    });
    Some((1 + as_large.count()) as f64 / (flips + 1) as f64)
}

/// The p-values adjusted for their number (Holm 1979): if those below a level count as differences,
/// the probability of any false positive is at most that level.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order = (0..p.len()).collect::<Vec<_>>();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut largest = 0.0_f64;
    for (rank, &i) in order.iter().enumerate() {
        largest = largest.max((p.len() - rank) as f64 * p[i]).min(1.0);
        adjusted[i] = largest;
    }
    adjusted
}

/// Pairs `policy` with the best of `fixed` by prompt: each half of the prompts (every second one by
/// name) uses the member of `fixed` that is fastest on the other half. No choice is evaluated on
/// the data that made it, so neither side is favoured. (Leaving out one prompt at a time would
/// penalise near-ties: a prompt that tips the choice would be compared with the losing length.) All
/// arguments are pairs with the same baseline; in the result, the fixed length replaces plain
/// decoding.
pub fn against_tuned<'p>(
    fixed: &[BTreeMap<&str, PairedTime>],
    policy: &BTreeMap<&'p str, PairedTime>,
) -> BTreeMap<&'p str, PairedTime> {
    let best_on = |half: usize| {
        let rate = |times: &BTreeMap<&str, PairedTime>| {
            let prompts = policy.keys().skip(half).step_by(2);
            speedup(prompts.filter_map(|prompt| times.get(prompt)))
        };
        let rated = fixed.iter().filter_map(|times| Some((rate(times)?, times)));
        rated.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, times)| times)
    };
    let chosen = [best_on(1), best_on(0)];
    let paired = policy.iter().enumerate().filter_map(|(i, (&prompt, own))| {
        let best = chosen[i % 2]?.get(prompt)?;
        let (plain_us, plain_tokens, plain_passes) = (best.us, best.tokens, best.passes);
        Some((prompt, PairedTime { plain_us, plain_tokens, plain_passes, ..*own }))
    });
    paired.collect()
}
