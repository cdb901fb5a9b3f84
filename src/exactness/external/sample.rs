//! Samples the rounds of an external verifier.

use super::cases::RoundCase;
use super::certificate::{ExternalBug, ExternalCertificate, ExternalSampling, ExternalVerdict};
use super::naming::{KnownWrong, known_wrong};
use super::options::ExternalOptions;
use super::pearson::{PooledFit, SequenceCounts, UNLIKELY, rounds_to_find};
use super::round::{ExternalChance, ExternalVerifier, total};
use super::round_distribution::distance;
use super::walk::{outcome, placed};
use crate::audit::log_mean_exp;
use crate::chance::{Chance, Purpose, Request, Seeded, Site};
use crate::distribution::Token;
use crate::error::Error;
use crate::exactness::joint::{JointDistribution, worse};

/// The probability that an exact verifier is refuted.
pub(super) const LEVEL: f64 = 1e-3;
/// The bets assume that a bug affects these shares of an otherwise exact verifier's rounds.
const SHARES: [f64; 5] = [1.0, 0.5, 0.25, 0.125, 0.0625];
/// Rounds per case before the bets are settled for the first time. This number doubles each time.
const FIRST_COUNT: u64 = 64;
/// The minimum number of rounds per case of a refuted verifier. A few rounds may refute it, but
/// similar bugs need more to be distinguished.
const ROUNDS_TO_NAME: u64 = 1024;
/// The largest number of random numbers in a round.
const MOST_DRAWS: usize = 1 << 20;

/// The random numbers of a round.
struct SampledChance<'s> {
    seeded: &'s mut Seeded,
    draws: usize,
    refused: Option<Error>,
}

impl SampledChance<'_> {
    fn unit(&mut self, purpose: Purpose) -> f64 {
        self.draws += 1;
        self.seeded.uniform(Site { purpose, node: self.draws })
    }

    fn index(&mut self, purpose: Purpose, weights: &[f64], total: f64) -> usize {
        let (mut rest, mut last) = (self.unit(purpose) * total, 0);
        for (index, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            last = index;
            if rest < weight {
                break;
            }
            rest -= weight;
        }
        last
    }

    /// A draw, if there may be more of them in this round. Notes the first error.
    fn limited<T>(&mut self, draw: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        let found = match self.draws {
            ..MOST_DRAWS => draw(self),
            _ => Err(Error::input(format!("it draws more than {MOST_DRAWS} numbers in a round"))),
        };
        if let Err(error) = &found {
            self.refused.get_or_insert(error.clone());
        }
        found
    }
}

impl ExternalChance for SampledChance<'_> {
    fn choose(&mut self, weights: &[f64]) -> Result<usize, Error> {
        self.limited(|chance| Ok(chance.index(Purpose::Residual, weights, total(weights)?)))
    }

    fn uniform(&mut self) -> Result<f64, Error> {
        self.limited(|chance| Ok(chance.unit(Purpose::Accept)))
    }
}

/// Samples rounds of all cases, and records what they show.
///
/// # Errors
/// With a message if the verifier breaks a rule of the interface.
pub(super) fn sample_cases(
    verifier: &mut dyn ExternalVerifier,
    cases: &[RoundCase],
    options: &ExternalOptions,
    certificate: &mut ExternalCertificate,
) -> Result<(), String> {
    let per_case = |rounds: u64| rounds.div_ceil(cases.len() as u64);
    let rounds = options.rounds.map_or_else(|| rounds_to_find(cases, options.detect), per_case);
    let bets = Bets::on_all(cases);
    let mut seeded = Seeded::new(Request { seed: options.seed, prompt: "external", repeat: 0 });
    let mut counts = vec![SequenceCounts::new(); cases.len()];
    let (mut done, mut next, mut number) = (0, FIRST_COUNT.min(rounds), 0);
    let (mut log_wealth, mut refuted) = (f64::NEG_INFINITY, false);
    loop {
        for _ in done..next {
            for (case, counts) in cases.iter().zip(&mut counts) {
                seeded.begin_round(number);
                number += 1;
                let sequence = one_round(verifier, case, &mut seeded)?;
                *counts.entry(sequence).or_insert(0) += 1;
            }
        }
        done = next;
        // The largest wealth so far.
        log_wealth = log_wealth.max(bets.log_wealth(&counts, cases));
        refuted |= PooledFit::of_target(&counts, cases).impossible > 0;
        refuted |= log_wealth >= (2.0 / LEVEL).ln();
        if done == rounds || (refuted && done >= ROUNDS_TO_NAME) {
            break;
        }
        next = (2 * done).min(rounds);
    }
    let fit = PooledFit::of_target(&counts, cases);
    // Pearson's test is valid only for the number of rounds that was fixed in advance.
    let complete = done == rounds;
    refuted |= complete && !fit.is_plausible();
    let found = counts.iter().map(frequencies).collect::<Vec<_>>();
    for (case, found) in cases.iter().zip(&found) {
        certificate.add(case, found, done, noise(case, done));
    }
    certificate.verdict = ExternalVerdict::NotRefuted;
    if refuted {
        certificate.refute(cases, &found);
        (certificate.likely_bug, certificate.closest_bug) = bets.named(&counts, cases, &found);
    }
    certificate.sampling = Some(ExternalSampling {
        level: LEVEL,
        min_detectable_tv: fit.min_detectable_tv,
        log10_wealth: log_wealth / std::f64::consts::LN_10,
        statistic: complete.then_some(fit.statistic),
        critical: fit.critical,
        impossible: fit.impossible,
    });
    Ok(())
}

/// The next K + 1 tokens: those of a round, completed by draws from the target.
fn one_round(
    verifier: &mut dyn ExternalVerifier,
    case: &RoundCase,
    seeded: &mut Seeded,
) -> Result<Vec<Token>, String> {
    let mut chance = SampledChance { seeded, draws: 0, refused: None };
    let mut draft = Vec::with_capacity(case.k);
    while draft.len() < case.k {
        draft.push(chance.index(Purpose::Draft, case.q(&draft), 1.0) as Token);
    }
    let round = case.round(&draft);
    let found = verifier.verify(&round, &mut chance);
    let found = outcome(&round, chance.refused.as_ref(), found);
    let mut sequence = found.map_err(|why| placed(case, &draft, &why))?;
    while sequence.len() <= case.k {
        sequence.push(chance.index(Purpose::Target, case.p(&sequence), 1.0) as Token);
    }
    Ok(sequence)
}

fn frequencies(counts: &SequenceCounts) -> JointDistribution {
    let all = counts.values().sum::<u64>() as f64;
    counts.iter().map(|(sequence, &n)| (sequence.clone(), n as f64 / all)).collect()
}

/// The expected total variation between the frequencies of an exact verifier and the distribution.
fn noise(case: &RoundCase, rounds: u64) -> f64 {
    // The mean absolute deviation of a frequency, taken as normal.
    let deviation = |p: &f64| (2.0 * p * (1.0 - p) / (std::f64::consts::PI * rounds as f64)).sqrt();
    0.5 * case.expected.values().map(deviation).sum::<f64>()
}

/// Bets on the distributions of known-wrong verifiers.
struct Bets {
    /// Each known bug with its distribution in every case.
    on: Vec<(KnownWrong, Vec<JointDistribution>)>,
}

impl Bets {
    fn on_all(cases: &[RoundCase]) -> Self {
        let placed = known_wrong().into_iter().filter_map(|mut wrong| {
            let dists =
                cases.iter().map(|case| wrong.distribution(case)).collect::<Option<Vec<_>>>()?;
            Some((wrong, dists))
        });
        Self { on: placed.collect() }
    }

    /// The logarithm of the winnings of bets that are divided equally between all bugs and shares.
    fn log_wealth(&self, counts: &[SequenceCounts], cases: &[RoundCase]) -> f64 {
        let shares = self.on.iter().flat_map(|(_, dists)| {
            SHARES.map(|share| log_likelihood_ratio(counts, dists, cases, share))
        });
        log_mean_exp(&shares.collect::<Vec<_>>())
    }

    /// The bug with the highest likelihood, if the counts are plausible under it; else the one
    /// whose distribution in the first case is closest to the frequencies.
    fn named(
        &self,
        counts: &[SequenceCounts],
        cases: &[RoundCase],
        found: &[JointDistribution],
    ) -> (Option<ExternalBug>, Option<ExternalBug>) {
        let all = [cases.len(); 2];
        let likely = self.on.iter().map(|one| (one, log_probability(counts, &one.1)));
        let likely = likely.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(one, _)| one);
        if let Some((wrong, dists)) = likely
            && PooledFit::test(counts, dists.iter(), UNLIKELY).is_plausible()
        {
            let tv = dists.iter().zip(found).map(|(dist, found)| distance(dist, found));
            return (Some(wrong.bug(tv.fold(0.0, worse), all)), None);
        }
        let close = self.on.iter().map(|(wrong, dists)| (wrong, distance(&dists[0], &found[0])));
        let closest = close.min_by(|a, b| a.1.total_cmp(&b.1));
        (None, closest.map(|(wrong, tv)| wrong.bug(tv, [0, cases.len()])))
    }
}

/// The log-likelihood of the counts under these distributions.
fn log_probability(counts: &[SequenceCounts], dists: &[JointDistribution]) -> f64 {
    let each = counts.iter().zip(dists).flat_map(|(counts, dist)| {
        counts
            .iter()
            .map(|(sequence, &n)| n as f64 * dist.get(sequence).copied().unwrap_or(0.0).ln())
    });
    each.sum()
}

/// The log-likelihood ratio of the counts between a verifier with a share of a bug and an exact
/// one.
fn log_likelihood_ratio(
    counts: &[SequenceCounts],
    dists: &[JointDistribution],
    cases: &[RoundCase],
    share: f64,
) -> f64 {
    let each = counts.iter().zip(dists).zip(cases).flat_map(|((counts, dist), case)| {
        counts.iter().filter_map(move |(sequence, &n)| {
            let p = case.expected.get(sequence).copied().filter(|p| *p > 0.0)?;
            let bug = dist.get(sequence).copied().unwrap_or(0.0);
            Some(n as f64 * (share * (bug / p - 1.0)).ln_1p())
        })
    });
    each.sum()
}
