//! The law that rounds have, and where it leaves the target's.

use std::collections::BTreeMap;

use super::cases::RoundCase;
use super::certificate::ExternalWitness;
use crate::distribution::Token;
use crate::exactness::joint::{JointDistribution, worse};

/// The law of K + 1 tokens from that of the tokens of a round, which draws from the
/// target complete.
pub(super) fn completed(case: &RoundCase, rounds: &JointDistribution) -> JointDistribution {
    let mut whole = JointDistribution::new();
    let mut open = JointDistribution::from([(Vec::new(), 0.0)]);
    for len in 1..=case.k + 1 {
        let mut longer = JointDistribution::new();
        for (text, mass) in &open {
            for (token, p) in case.p(text).iter().enumerate().filter(|_| *mass > 0.0) {
                longer.insert([&text[..], &[token as Token]].concat(), mass * p);
            }
        }
        for (text, mass) in rounds.iter().filter(|(text, _)| text.len() == len) {
            *longer.entry(text.clone()).or_insert(0.0) += mass;
        }
        open = longer;
    }
    whole.extend(open.into_iter().filter(|(_, mass)| *mass != 0.0));
    whole
}

/// The law of the first tokens.
fn beginnings(law: &JointDistribution, len: usize) -> JointDistribution {
    let mut found = JointDistribution::new();
    for (text, mass) in law {
        *found.entry(text[..len].to_vec()).or_insert(0.0) += mass;
    }
    found
}

/// The first place at which a law differs from the target's by more than `bar`, and there the
/// context with the largest difference; `None` if there is none.
pub(super) fn witness(
    case: &RoundCase,
    found: &JointDistribution,
    bar: f64,
) -> Option<ExternalWitness> {
    let (len, text) = (1..=case.k + 1).find_map(|len| {
        let (found, expected) = (beginnings(found, len), beginnings(&case.expected, len));
        let of = |law: &JointDistribution, text| law.get(text).copied().unwrap_or(0.0);
        let texts = found.keys().chain(expected.keys());
        let off = texts.map(|text| (text, (of(&found, text) - of(&expected, text)).abs()));
        let most = off.max_by(|a, b| a.1.total_cmp(&b.1))?;
        (most.1 > bar).then(|| (len, most.0.clone()))
    })?;
    let after = &text[..len - 1];
    let (whole, next) = (beginnings(found, len - 1), beginnings(found, len));
    let mass = whole.get(after).copied().unwrap_or(0.0);
    let expected = case.p(after).to_vec();
    let of = |token| next.get(&[after, &[token as Token]].concat()).copied().unwrap_or(0.0) / mass;
    let found = (0..expected.len()).map(of).collect();
    let draft = draft_along(case, &text);
    let round = case.round(&draft);
    Some(ExternalWitness { case: case.name, round, after: after.to_vec(), expected, found })
}

/// The draft that goes along with a text as far as q can, and then with its most probable
/// tokens.
fn draft_along(case: &RoundCase, text: &[Token]) -> Vec<Token> {
    let mut draft = Vec::with_capacity(case.k);
    while draft.len() < case.k {
        let row = case.q(&draft);
        let along = text.starts_with(&draft).then(|| text.get(draft.len())).flatten();
        let along = along.copied().filter(|&token| row[token as usize] > 0.0);
        let most = || (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a)));
        draft.push(along.unwrap_or_else(|| most().unwrap_or_default() as Token));
    }
    draft
}

/// The total variation between two laws; more than any if one is not a number.
pub(super) fn distance(a: &JointDistribution, b: &JointDistribution) -> f64 {
    let mut both = BTreeMap::<&[Token], f64>::new();
    a.iter().for_each(|(text, mass)| *both.entry(text).or_insert(0.0) += mass);
    b.iter().for_each(|(text, mass)| *both.entry(text).or_insert(0.0) -= mass);
    worse(0.5 * both.values().map(|difference| difference.abs()).sum::<f64>(), 0.0)
}
