//! The best continuations of a beam.

use std::collections::BTreeMap;

use crate::core::distribution::{DistError, Token};
use crate::core::sampling::{Logits, log_mass_and_best};

/// The penalty on log p of each token that other groups chose.
pub(super) type Penalties = BTreeMap<Token, f64>;

/// The `count` best tokens after a row, best first, with log p less the penalties; ties go to
/// the lowest id, and impossible tokens are left out.
pub(super) fn best(
    logits: &Logits,
    count: usize,
    penalties: &Penalties,
) -> Result<Vec<(Token, f64)>, DistError> {
    // Each penalised token can make room for one other.
    let (mass, tokens) = log_mass_and_best(logits, count + penalties.len())?;
    let score = |token| logits.get(token) - mass - penalties.get(&token).unwrap_or(&0.0);
    let mut best = tokens.into_iter().map(|token| (token, score(token))).collect::<Vec<_>>();
    best.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    best.truncate(count);
    Ok(best)
}
