//! Several drafted tokens at one position: the probability that one of them is accepted, given the
//! token that the completion has there.
//!
//! Recursive rejection sampling (Miao et al. 2023, arXiv 2305.09781) decides on siblings in the
//! order in which they were drawn. With p₁ = p, sibling j is accepted with probability min(1,
//! p_j/s_j), and p_{j+1} = norm((p_j − s_j)⁺), where s_j is the distribution that it was drawn
//! from.

use serde::{Deserialize, Serialize};

use super::acceptance::is_probability;
use crate::core::distribution::{Dist, Token};

/// Maximum number of siblings that a tape covers.
pub const MAX_SIBLINGS: usize = 4;

/// How siblings are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SiblingKind {
    /// Drawn independently from q.
    Independent,
    /// Two drawn from q without replacement. For more, the probability is a sum over tuples of
    /// tokens, which no tape holds.
    Distinct,
    /// The most probable tokens of q.
    TopK,
}

impl SiblingKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Independent, Self::Distinct, Self::TopK];

    /// The name in the settings of drafters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::Distinct => "distinct",
            Self::TopK => "top_k",
        }
    }
}

/// What a tape holds about siblings at the tokens of a completion.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiblingScores {
    /// By token: P(sibling j is accepted and is the token) / p(token) for independent siblings
    /// j = 1, 2, ….
    pub independent: Vec<[f64; MAX_SIBLINGS]>,
    /// By token: the same for the second of two siblings without replacement. The first has the
    /// probability of an independent one.
    pub distinct: Vec<f64>,
    /// By token: its rank by q, from 0; the largest number if q does not have the token. For a
    /// greedy draft, the rank by its model's distribution at temperature 1.
    pub rank: Vec<u32>,
}

impl SiblingScores {
    /// Adds a token of the completion. Under a greedy draft q has one token, so `belief`, the
    /// model's distribution at temperature 1, ranks the tokens.
    pub(super) fn add(&mut self, p: &Dist, q: &Dist, belief: Option<&Dist>, token: Token) {
        let rank = rank(belief.unwrap_or(q), token);
        self.independent.push(independent(p, q, token));
        self.distinct.push(match belief {
            Some(_) => f64::from(u8::from(rank == 1 && p.p(token) > 0.0)),
            None => second(p, q, token),
        });
        self.rank.push(rank);
    }

    /// Checks that there is an entry for each of `tokens` tokens, and that siblings do not accept a
    /// token more often than the target draws it.
    pub(super) fn check(&self, tokens: usize) -> Result<(), String> {
        if [self.independent.len(), self.distinct.len(), self.rank.len()] != [tokens; 3] {
            return Err(format!("\"siblings\" has no entry for each of {tokens} tokens"));
        }
        for (at, (independent, distinct)) in self.independent.iter().zip(&self.distinct).enumerate()
        {
            let sums = [independent.iter().sum(), independent[0] + distinct];
            let mut all = independent.iter().chain([distinct]).copied().chain(sums);
            if let Some(wrong) = all.find(|p| !is_probability(*p)) {
                return Err(format!(
                    "\"siblings\" of token {at} accept it with {wrong}: allowed are probabilities, \
                     0 to 1, also of all siblings together"
                ));
            }
        }
        Ok(())
    }

    /// The probability that one of `count` siblings is accepted at token `at`, given that the
    /// completion has it there; `None` for more siblings than the tape covers.
    pub fn accepted(&self, kind: SiblingKind, count: usize, at: usize) -> Option<f64> {
        let independent = self.independent.get(at)?;
        match kind {
            SiblingKind::Independent => Some(independent.get(..count)?.iter().sum()),
            SiblingKind::Distinct => match count {
                1 => Some(independent[0]),
                2 => Some(independent[0] + self.distinct.get(at)?),
                _ => None,
            },
            SiblingKind::TopK => Some(f64::from(u8::from((*self.rank.get(at)? as usize) < count))),
        }
    }
}

fn rank(ranking: &Dist, token: Token) -> u32 {
    let own = ranking.p(token);
    let before = |&(other, mass): &(Token, f64)| mass > own || (mass == own && other < token);
    let rank = ranking.support().filter(before).count() as u32;
    if own > 0.0 { rank } else { Token::MAX }
}

fn independent(p: &Dist, q: &Dist, token: Token) -> [f64; MAX_SIBLINGS] {
    let (own, mut undecided) = (p.p(token), 1.0);
    let mut left = Some(p.clone());
    [(); MAX_SIBLINGS].map(|()| {
        let Some(target) = &left else { return 0.0 };
        let accepted = undecided * target.p(token).min(q.p(token)) / own;
        undecided *= 1.0 - target.overlap(q);
        left = target.residual(q);
        if own > 0.0 { accepted } else { 0.0 }
    })
}

/// The second of two siblings is drawn from q without the first, y, which was rejected with
/// probability (q − p)⁺(y).
fn second(p: &Dist, q: &Dist, token: Token) -> f64 {
    let (own, drafted) = (p.p(token), q.p(token));
    let Some(left) = p.residual(q).map(|left| left.p(token)).filter(|_| own > 0.0) else {
        return 0.0;
    };
    let first = q.support().filter(|(other, _)| *other != token);
    let both = first.map(|(other, mass)| {
        let rejected = (mass - p.p(other)).max(0.0);
        // If the first sibling has all of the mass, none is left for a second.
        let next = if mass < 1.0 { drafted / (1.0 - mass) } else { 0.0 };
        rejected * left.min(next)
    });
    both.sum::<f64>() / own
}
