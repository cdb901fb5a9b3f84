//! The joint distribution of rounds, and where it differs from the target's.

use std::collections::BTreeMap;

use super::cases::RoundCase;
use super::certificate::ExternalWitness;
use crate::distribution::Token;
use crate::exactness::joint::{JointDistribution, worse};

/// The distribution of K + 1 tokens: the tokens of a round, completed by draws from the target.
pub(super) fn completed(case: &RoundCase, rounds: &JointDistribution) -> JointDistribution {
    let mut whole = JointDistribution::new();
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
    whole.extend(open.into_iter().filter(|(_, mass)| *mass != 0.0));
    whole
}

/// The distribution of the first `len` tokens.
fn prefixes(dist: &JointDistribution, len: usize) -> JointDistribution {
    let mut found = JointDistribution::new();
    for (sequence, mass) in dist {
        *found.entry(sequence[..len].to_vec()).or_insert(0.0) += mass;
    }
    found
}

/// The first position at which a distribution differs from the target's by more than `bar`, with
/// the context of the largest difference there; `None` if there is none.
pub(super) fn witness(
    case: &RoundCase,
    found: &JointDistribution,
    bar: f64,
) -> Option<ExternalWitness> {
    let (len, sequence) = (1..=case.k + 1).find_map(|len| {
        let (found, expected) = (prefixes(found, len), prefixes(&case.expected, len));
        let of = |dist: &JointDistribution, sequence| dist.get(sequence).copied().unwrap_or(0.0);
        let sequences = found.keys().chain(expected.keys());
        let off = sequences
            .map(|sequence| (sequence, (of(&found, sequence) - of(&expected, sequence)).abs()));
        let most = off.max_by(|a, b| a.1.total_cmp(&b.1))?;
        (most.1 > bar).then(|| (len, most.0.clone()))
    })?;
    let after = &sequence[..len - 1];
    let (whole, next) = (prefixes(found, len - 1), prefixes(found, len));
    let mass = whole.get(after).copied().unwrap_or(0.0);
    let expected = case.p(after).to_vec();
    let of = |token| next.get(&[after, &[token as Token]].concat()).copied().unwrap_or(0.0) / mass;
    let found = (0..expected.len()).map(of).collect();
    let draft = draft_along(case, &sequence);
    let round = case.round(&draft);
    Some(ExternalWitness { case: case.name, round, after: after.to_vec(), expected, found })
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
    a.iter().for_each(|(sequence, mass)| *both.entry(sequence).or_insert(0.0) += mass);
    b.iter().for_each(|(sequence, mass)| *both.entry(sequence).or_insert(0.0) -= mass);
    worse(0.5 * both.values().map(|difference| difference.abs()).sum::<f64>(), 0.0)
}
