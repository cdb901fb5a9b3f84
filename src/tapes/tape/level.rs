//! The acceptance of drafted tokens at one position, for any token that the completion has there.

use serde::{Deserialize, Serialize};

use super::acceptance::is_probability;
use super::siblings::{MAX_SIBLINGS, SiblingKind};
use crate::core::distribution::Dist;
use crate::core::tree::Siblings;
use crate::method::verify::ceilings;

/// The draws from q whose acceptance a tape holds: how several tokens are drawn, and how many.
pub const DRAWS: [(SiblingKind, usize); 3] =
    [(SiblingKind::Independent, 2), (SiblingKind::Independent, 4), (SiblingKind::Distinct, 2)];

/// What a tape holds about greedy and drawn tokens at each position.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelScores {
    /// By token: the acceptance of the 1, 2, … most probable tokens of q, which is the sum of their
    /// p.
    pub greedy: Vec<[f64; MAX_SIBLINGS]>,
    /// By token: the ceiling of each of [`DRAWS`], the largest acceptance of an exact rule.
    pub drawn: Vec<[f64; DRAWS.len()]>,
}

impl LevelScores {
    /// Adds a position; without q nothing is drafted there.
    pub(super) fn add(&mut self, p: &Dist, q: Option<&Dist>) {
        let listed = q.map_or(Vec::new(), |q| q.most_probable(MAX_SIBLINGS));
        let sum = |count| listed.iter().take(count).map(|&token| p.p(token)).sum();
        self.greedy.push(std::array::from_fn(|at| sum(at + 1)));
        let draws = DRAWS.map(|(kind, count)| match kind {
            SiblingKind::Independent => (Siblings::Independent, count),
            SiblingKind::Distinct => (Siblings::Distinct, count),
            SiblingKind::TopK => (Siblings::TopK, count),
        });
        let best = q.map(|q| ceilings(p, q, draws));
        self.drawn.push(best.unwrap_or_default().map(Option::unwrap_or_default));
    }

    /// Checks that there is an entry for each of `tokens` tokens, and that all are probabilities.
    pub(super) fn check(&self, tokens: usize) -> Result<(), String> {
        if [self.greedy.len(), self.drawn.len()] != [tokens; 2] {
            return Err(format!("\"level\" has no entry for each of {tokens} tokens"));
        }
        for (at, (greedy, drawn)) in self.greedy.iter().zip(&self.drawn).enumerate() {
            if let Some(wrong) = greedy.iter().chain(drawn).find(|p| !is_probability(**p)) {
                return Err(format!(
                    "\"level\" of token {at} has {wrong}: allowed are probabilities, 0 to 1"
                ));
            }
        }
        Ok(())
    }
}
