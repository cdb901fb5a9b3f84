//! How learning bets divide the tokens at a position into groups.

use std::collections::BTreeSet;

use crate::core::distribution::{Dist, Token};

/// A position as a learning bet sees it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Grouped {
    /// The probability of each group under the target's distribution.
    pub(super) masses: Vec<f64>,
    /// The groups of the token that was drawn, each with its share of the token.
    pub(super) own: Vec<(usize, f64)>,
}

impl Grouped {
    /// The same groups as those of part number `part` of several parts, of which the past decides
    /// the one that a position belongs to.
    pub(super) fn in_part(self, part: usize, parts: usize) -> Self {
        let first = part * self.masses.len();
        let mut masses = vec![0.0; parts * self.masses.len()];
        masses[first..first + self.masses.len()].copy_from_slice(&self.masses);
        let own = self.own.into_iter().map(|(at, share)| (first + at, share)).collect();
        Self { masses, own }
    }
}

/// The tokens before a position.
#[derive(Debug, Clone, Default)]
pub(super) struct PastTokens {
    /// All of them, in order.
    pub(super) tokens: Vec<Token>,
    /// The distinct ones.
    pub(super) taken: BTreeSet<Token>,
    /// The draft model's most probable token of each position where the sequence has another one.
    pub(super) not_taken: BTreeSet<Token>,
}

impl PastTokens {
    /// Adds a token and the draft model's most probable token at its position.
    pub(super) fn add(&mut self, token: Token, drafted: Option<Token>) {
        self.tokens.push(token);
        self.taken.insert(token);
        self.not_taken.extend(drafted.filter(|&drafted| drafted != token));
    }
}

/// Divides the tokens into ranges of a score that have the same probability, highest scores first.
/// A token belongs to all ranges that the probability of its score covers.
pub(super) fn ranges(target: &Dist, score: impl Fn(Token, f64) -> f64, token: Token) -> Grouped {
    const RANGES: usize = 16;
    let own = score(token, target.p(token));
    let (mut above, mut same) = (0.0, 0.0);
    for (other, p) in target.support() {
        let score = score(other, p);
        above += if score > own { p } else { 0.0 };
        same += if score == own { p } else { 0.0 };
    }
    let (begin, end) = (above * RANGES as f64, ((above + same) * RANGES as f64).min(RANGES as f64));
    let covered = |at: usize| (end.min((at + 1) as f64) - begin.max(at as f64)).max(0.0);
    let all = (0..RANGES).map(covered).sum::<f64>();
    let shares = (0..RANGES).map(|at| (at, covered(at) / all)).filter(|(_, share)| *share > 0.0);
    Grouped { masses: vec![1.0 / RANGES as f64; RANGES], own: shares.collect() }
}

/// Divides the tokens into `N` groups of tokens from `some`, which names each token once, and a
/// last group of all others.
pub(super) fn grouped<'t, const N: usize>(
    target: &Dist,
    some: impl Iterator<Item = &'t Token>,
    group: impl Fn(Token) -> Option<usize>,
    token: Token,
) -> Grouped {
    let mut masses = [0.0; N];
    for (&one, at) in some.filter_map(|one| Some((one, group(*one)?))) {
        masses[at] += target.p(one);
    }
    let rest = (1.0 - masses.iter().sum::<f64>()).max(0.0);
    let masses = masses.into_iter().chain([rest]).collect();
    Grouped { masses, own: vec![(group(token).unwrap_or(N), 1.0)] }
}
