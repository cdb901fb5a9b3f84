//! How bets that learn divide the tokens of a place into groups.

use std::collections::BTreeSet;

use super::laws::PlaceLaws;
use crate::distribution::{Dist, Token};

/// A place, as a bet that learns sees it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Grouped {
    /// The probability of each group under the target's law.
    pub(super) masses: Vec<f64>,
    /// The groups of the token that came, each with a share of it.
    pub(super) own: Vec<(usize, f64)>,
}

/// What a text had before.
#[derive(Debug, Clone, Default)]
pub(super) struct TextPast {
    /// Its tokens.
    pub(super) tokens: Vec<Token>,
    /// The draft model's most probable tokens that the text did not take.
    pub(super) not_taken: BTreeSet<Token>,
}

impl TextPast {
    /// Adds a token.
    pub(super) fn add(&mut self, laws: &PlaceLaws<'_>, token: Token) {
        self.tokens.push(token);
        self.not_taken.extend(laws.draft.map(Dist::argmax).filter(|&drafted| drafted != token));
    }
}

/// Ranges of a score, each with the same probability. A token that no other has the score of is
/// in all that its probability covers, the tokens with the highest score first.
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

/// Sets of tokens, and a last group of all others; a token of several is in the first.
pub(super) fn sets_of<const N: usize>(
    target: &Dist,
    sets: &[BTreeSet<Token>; N],
    token: Token,
) -> Grouped {
    let group = |token: Token| sets.iter().position(|set| set.contains(&token)).unwrap_or(N);
    let mut masses = vec![0.0; N + 1];
    for (at, set) in sets.iter().enumerate() {
        masses[at] = set.iter().filter(|&&one| group(one) == at).map(|&one| target.p(one)).sum();
    }
    masses[N] = (1.0 - masses.iter().sum::<f64>()).max(0.0);
    Grouped { masses, own: vec![(group(token), 1.0)] }
}
