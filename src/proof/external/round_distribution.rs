//! The joint distribution of rounds, and where it differs from the target's.

use std::collections::BTreeMap;

use super::cases::RoundCase;
use super::certificate::{ExternalCase, ExternalCertificate, ExternalVerdict, ExternalWitness};
use crate::core::distribution::Token;
use crate::proof::joint::{Gap, JointDistribution, first_tokens, worse};

/// The distribution of K + 1 tokens: the tokens of a round, completed by draws from the target.
pub(super) fn completed(case: &RoundCase, rounds: &JointDistribution) -> JointDistribution {
    let mut open = JointDistribution::from([(Vec::new(), 0.0)]);
    for len in 1..=case.k + 1 {
        let mut longer = JointDistribution::new();
        for (sequence, mass) in &open {
            for (token, p) in case.p(sequence).iter().enumerate().filter(|_| *mass > 0.0) {
                longer.insert([&sequence[..], &[token as Token]].concat(), mass * p);
            }
        }
        for (sequence, mass) in rounds.iter().filter(|(sequence, _)| sequence.len() == len) {
            *longer.entry(sequence.clone()).or_insert(0.0) += mass;
        }
        open = longer;
    }
    open.into_iter().filter(|(_, mass)| *mass != 0.0).collect()
}

/// The share of drafted tokens that are accepted in rounds with this distribution.
pub(super) fn acceptance(case: &RoundCase, rounds: &JointDistribution) -> f64 {
    let accepted = rounds.iter().map(|(tokens, mass)| mass * (tokens.len() - 1) as f64);
    accepted.sum::<f64>() / case.k as f64
}

impl ExternalCertificate {
    /// Adds the result in a case: this distribution and share of accepted tokens, from this number
    /// of rounds.
    pub(super) fn add(
        &mut self,
        case: &RoundCase,
        found: &JointDistribution,
        rounds: u64,
        acceptance: f64,
        noise: f64,
    ) {
        let Gap { tv_joint, tv_first_token, max_error, .. } = Gap::between(found, &case.expected);
        self.rounds += rounds;
        self.max_tv = worse(self.max_tv, tv_joint);
        self.max_error = worse(self.max_error, max_error);
        let rejection_acceptance = case.rejection_acceptance();
        // The mean over the cases so far.
        let share = 1.0 / (self.cases.len() + 1) as f64;
        self.acceptance += share * (acceptance - self.acceptance);
        self.rejection_acceptance += share * (rejection_acceptance - self.rejection_acceptance);
        self.cases.push(ExternalCase {
            name: case.kind.name,
            about: case.kind.about,
            vocab: case.vocab,
            k: case.k,
            acceptance,
            rejection_acceptance,
            rounds,
            tv_joint,
            tv_first_token,
            max_error,
            noise,
        });
    }

    /// Records that the distributions are not the target's, and where they differ.
    pub(super) fn refute(&mut self, cases: &[RoundCase], dists: &[JointDistribution]) {
        self.verdict = ExternalVerdict::Wrong;
        let excess = |case: &ExternalCase| case.tv_joint - case.noise;
        let most = self.cases.iter().zip(cases.iter().zip(dists));
        let most = most.max_by(|a, b| excess(a.0).total_cmp(&excess(b.0)));
        self.worst = most.and_then(|(shown, (case, dist))| {
            // For frequencies, only differences above the noise.
            let bar = if shown.noise > 0.0 { 0.25 * shown.max_error } else { self.bar };
            witness(case, dist, bar.min(shown.max_error / 2.0))
        });
    }
}

/// The first position at which a distribution differs from the target's by more than `bar`, with
/// the context of the largest difference there; `None` if there is none.
fn witness(case: &RoundCase, found: &JointDistribution, bar: f64) -> Option<ExternalWitness> {
    let (len, sequence) = (1..=case.k + 1).find_map(|len| {
        let (found, expected) = (first_tokens(found, len), first_tokens(&case.expected, len));
        let of = |dist: &JointDistribution, sequence| dist.get(sequence).copied().unwrap_or(0.0);
        let sequences = found.keys().chain(expected.keys());
        let off = sequences
            .map(|sequence| (sequence, (of(&found, sequence) - of(&expected, sequence)).abs()));
        let most = off.max_by(|a, b| a.1.total_cmp(&b.1))?;
        (most.1 > bar).then(|| (len, most.0.clone()))
    })?;
    let after = &sequence[..len - 1];
    let (whole, next) = (first_tokens(found, len - 1), first_tokens(found, len));
    let mass = whole.get(after).copied().unwrap_or(0.0);
    let expected = case.p(after).to_vec();
    let of = |token| next.get(&[after, &[token as Token]].concat()).copied().unwrap_or(0.0) / mass;
    let found = (0..expected.len()).map(of).collect();
    let draft = draft_along(case, &sequence);
    let round = case.round(&draft);
    Some(ExternalWitness { case: case.kind.name, round, after: after.to_vec(), expected, found })
}

/// The draft that follows a sequence as far as q allows, and then takes q's most probable tokens.
fn draft_along(case: &RoundCase, sequence: &[Token]) -> Vec<Token> {
    let mut draft = Vec::with_capacity(case.k);
    while draft.len() < case.k {
        let row = case.q(&draft);
        let along = sequence.starts_with(&draft).then(|| sequence.get(draft.len())).flatten();
        let along = along.copied().filter(|&token| row[token as usize] > 0.0);
        let most = || (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a)));
        draft.push(along.unwrap_or_else(|| most().unwrap_or_default() as Token));
    }
    draft
}

/// The total variation between two distributions; NaN if a probability is NaN.
pub(super) fn distance(a: &JointDistribution, b: &JointDistribution) -> f64 {
    let mut both = BTreeMap::<&[Token], f64>::new();
    for (sequence, mass) in a {
        *both.entry(sequence).or_insert(0.0) += mass;
    }
    for (sequence, mass) in b {
        *both.entry(sequence).or_insert(0.0) -= mass;
    }
    worse(0.5 * both.values().map(|difference| difference.abs()).sum::<f64>(), 0.0)
}
