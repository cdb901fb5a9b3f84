//! Greedy text that differs from the baseline's: where it differs, and whether by a tie.
//!
//! At T = 0 every method must repeat plain decoding's tokens. An engine whose rounding
//! depends on the number of rows may break a near-tie the other way. Nothing else is
//! excused: the two tokens must have the two largest logits of the baseline after
//! penalties, and the gap between these must be one that rounding can close.

use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::{History, Logits, Sampler};
use crate::core::tree::{Draft, Row};
use crate::measure::rows::DivergenceRow;
use crate::model::{LanguageModel, Want, Work, evaluate_one};

/// Logits of one token, computed in passes of different shape, differ by the
/// rounding of f32 sums: by about 1e-6 of the largest logit per layer, which
/// stays below 1e-4 of it for the depths of today's models. Gaps that decide
/// between different texts are far larger.
const TIE: f64 = 1e-4;

/// The first token at which `tokens` leaves `plain`; `None` if it never does.
pub fn first(plain: &[Token], tokens: &[Token]) -> Option<usize> {
    let common = plain.iter().zip(tokens).take_while(|(a, b)| a == b).count();
    (common < plain.len().max(tokens.len())).then_some(common)
}

/// The difference of two texts at token `at`, without logits and never a tie.
pub fn difference(plain: &[Token], tokens: &[Token], at: usize) -> DivergenceRow {
    DivergenceRow {
        position: at,
        plain_token: plain.get(at).copied(),
        token: tokens.get(at).copied(),
        ..DivergenceRow::default()
    }
}

/// The gap between the two largest logits, and the largest gap that rounding can close.
fn gap_and_bound(logits: &Logits) -> (f64, f64) {
    let largest = (0..logits.len() as Token)
        .map(|t| logits.get(t).abs())
        .filter(|x| x.is_finite())
        .fold(0.0, f64::max);
    let bound = if matches!(logits, Logits::F64(_)) { 0.0 } else { TIE * largest };
    (logits.top2_gap(), bound)
}

/// Explains a difference by the baseline's logits for the differing token. It is a tie
/// within rounding if the two tokens have the two largest logits after the penalties of
/// `sampler`, and rounding can close the gap between them.
///
/// # Errors
/// If the target fails.
pub fn explain(
    target: &dyn LanguageModel,
    sampler: &Sampler,
    prompt: &[Token],
    plain: &[Token],
    tokens: &[Token],
    at: usize,
) -> Result<DivergenceRow, Error> {
    let context = [prompt, &plain[..at]].concat();
    let mut session = target.session()?;
    let draft = Draft::empty(0);
    let work = Work {
        session: &mut session,
        context: &context,
        draft: &draft,
        want: Want::Row(Row::CONTEXT),
    };
    let evaluation = evaluate_one(target, work)?;
    let history = History { prompt_len: prompt.len(), context: &context, drafted: &[] };
    let scores = sampler.scores(&evaluation.rows[0], history);
    let scores = scores.map_err(Error::distribution("the target"))?;
    let (gap, bound) = gap_and_bound(&scores);
    let row = difference(plain, tokens, at);
    let top = scores.largest(2).into_iter().map(Some).collect::<Vec<_>>();
    let tie = gap <= bound && top.contains(&row.plain_token) && top.contains(&row.token);
    Ok(DivergenceRow { top2_gap: Some(gap), bound: Some(bound), tie, ..row })
}
