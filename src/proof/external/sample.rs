//! Samples the rounds of an external verifier.

use super::cases::RoundCase;
use super::certificate::{ExternalBug, ExternalCertificate, ExternalSampling, ExternalVerdict};
use super::draws::SampledChance;
use super::naming::{BugNames, distribution_in};
use super::options::ExternalOptions;
use super::pearson::{PooledFit, SequenceCounts, UNLIKELY, rounds_to_find};
use super::round::ExternalVerifier;
use super::round_distribution::distance;
use super::walk::{outcome, placed};
use crate::audit::log_mean_exp;
use crate::bugs::{Bug, wrong_verifiers};
use crate::core::chance::Purpose;
use crate::core::distribution::Token;
use crate::proof::joint::{JointDistribution, worse};

/// The probability that an exact verifier is refuted.
pub(super) const LEVEL: f64 = 1e-3;
/// The bets assume that a bug affects these shares of an otherwise exact verifier's rounds.
const SHARES: [f64; 5] = [1.0, 0.5, 0.25, 0.125, 0.0625];
/// Rounds per case before the bets are settled for the first time. This number doubles each time.
const FIRST_COUNT: u64 = 64;
/// The minimum number of rounds per case of a refuted verifier. A few rounds may refute it, but
/// similar bugs need more to be distinguished.
const ROUNDS_TO_NAME: u64 = 1024;
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
    let mut counts = vec![SequenceCounts::new(); cases.len()];
    let mut accepted = vec![0; cases.len()];
    let (mut done, mut next, mut number) = (0, FIRST_COUNT.min(rounds), 0);
    let (mut log_wealth, mut refuted) = (f64::NEG_INFINITY, false);
    loop {
        for _ in done..next {
            for (at, case) in cases.iter().enumerate() {
                let chance = SampledChance::new(options.seed, number);
                number += 1;
                let (sequence, kept) = one_round(verifier, case, chance)?;
                *counts[at].entry(sequence).or_insert(0) += 1;
                accepted[at] += kept;
            }
        }
        done = next;
        // The largest wealth so far.
        log_wealth = log_wealth.max(bets.log_wealth(&counts, cases));
        refuted |= PooledFit::of_target(&counts, cases).impossible > 0;
        refuted |= log_wealth >= (2.0 / LEVEL).ln();
        let named = || done >= ROUNDS_TO_NAME && bets.likely(&counts).len() == 1;
        if done == rounds || (refuted && named()) {
            break;
        }
        next = (2 * done).min(rounds);
    }
    let fit = PooledFit::of_target(&counts, cases);
    // Pearson's test is valid only for the number of rounds that was fixed in advance.
    let complete = done == rounds;
    refuted |= complete && !fit.is_plausible();
    let found = counts.iter().map(frequencies).collect::<Vec<_>>();
    for ((case, found), accepted) in cases.iter().zip(&found).zip(accepted) {
        let acceptance = accepted as f64 / (done * case.k as u64) as f64;
        certificate.add(case, found, done, acceptance, noise(case, done));
    }
    certificate.verdict = ExternalVerdict::NotRefuted;
    if refuted {
        certificate.refute(cases, &found);
        certificate.name(bets.named(&counts, cases, &found));
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

/// The next K + 1 tokens, those of a round completed by draws from the target, and the number of
/// accepted ones.
fn one_round(
    verifier: &mut dyn ExternalVerifier,
    case: &RoundCase,
    mut chance: SampledChance,
) -> Result<(Vec<Token>, usize), String> {
    let mut draft = Vec::with_capacity(case.k);
    while draft.len() < case.k {
        draft.push(chance.index(Purpose::Draft, case.q(&draft), 1.0) as Token);
    }
    let round = case.round(&draft);
    let found = verifier.verify(&round, &mut chance);
    let found = outcome(&round, chance.refused.as_ref(), found);
    let mut sequence = found.map_err(|why| placed(case, &draft, &why))?;
    let accepted = sequence.len() - 1;
    while sequence.len() <= case.k {
        sequence.push(chance.index(Purpose::Target, case.p(&sequence), 1.0) as Token);
    }
    Ok((sequence, accepted))
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
    on: Vec<(&'static Bug, Vec<JointDistribution>)>,
}

impl Bets {
    fn on_all(cases: &[RoundCase]) -> Self {
        let placed = wrong_verifiers().filter_map(|(bug, verifier)| {
            let dists = cases.iter().map(|case| distribution_in(case, verifier));
            Some((bug, dists.collect::<Option<Vec<_>>>()?))
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

    /// The bugs that are at least as likely as the most likely one times the level, which comes
    /// first. All others are excluded at the level.
    fn likely(&self, counts: &[SequenceCounts]) -> Vec<&(&'static Bug, Vec<JointDistribution>)> {
        let logs = self.on.iter().map(|one| (log_probability(counts, &one.1), one));
        let mut logs = logs.collect::<Vec<_>>();
        logs.sort_by(|a, b| b.0.total_cmp(&a.0));
        let least = logs.first().map_or(0.0, |best| best.0) + LEVEL.ln();
        logs.into_iter().take_while(|(log, _)| *log >= least).map(|(_, one)| one).collect()
    }

    /// The likely bugs, if the counts are plausible under the most likely one, so that no unknown
    /// bug is needed. Else the one whose distribution in the first case is closest to the
    /// frequencies.
    fn named(
        &self,
        counts: &[SequenceCounts],
        cases: &[RoundCase],
        found: &[JointDistribution],
    ) -> BugNames {
        let all = [cases.len(); 2];
        let likely = self.likely(counts);
        let plausible = likely.first().is_some_and(|(_, dists)| {
            PooledFit::test(counts, dists.iter(), UNLIKELY).is_plausible()
        });
        if plausible {
            let tv = |dists: &[JointDistribution]| {
                dists.iter().zip(found).map(|(dist, found)| distance(dist, found)).fold(0.0, worse)
            };
            let bugs = likely.into_iter().map(|(bug, dists)| ExternalBug::of(bug, tv(dists), all));
            return BugNames { alike: bugs.collect(), closest: None };
        }
        let close = self.on.iter().map(|(bug, dists)| (bug, distance(&dists[0], &found[0])));
        let closest = close.min_by(|a, b| a.1.total_cmp(&b.1));
        let closest = closest.map(|(bug, tv)| ExternalBug::of(bug, tv, [0, cases.len()]));
        BugNames { alike: Vec::new(), closest }
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
