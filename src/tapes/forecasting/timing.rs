//! Times of completions, from their rounds and the costs of passes.

use std::ops::{AddAssign, RangeInclusive};

use serde::Serialize;

use super::read_costs::CostTable;
use crate::measure::statistics::expected_tokens;
use crate::tapes::tape::Forecast;

/// The setting on which the cost of a pass depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct CostSetting {
    /// Number of sequences that share a pass; all proceed in the same way.
    pub batch: usize,
    /// Tokens before each pass; none for the actual context of each token.
    pub context: Option<usize>,
}

/// Costs, and the settings at which to compute times.
#[derive(Debug, Clone, Copy)]
pub struct Costed<'a> {
    /// The costs.
    pub table: &'a CostTable,
    /// The settings.
    pub settings: &'a [CostSetting],
}

/// The times of some completions, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SpentTime {
    /// The time of plain decoding.
    pub plain: f64,
    /// The expected time with drafts.
    pub drafted: f64,
}

/// What a round drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DraftedRound {
    /// The tokens.
    pub tokens: usize,
    /// Passes of the draft model.
    pub passes: usize,
}

impl DraftedRound {
    /// A step of plain decoding.
    pub const PLAIN: Self = Self { tokens: 0, passes: 0 };
}

impl AddAssign for SpentTime {
    fn add_assign(&mut self, other: Self) {
        self.plain += other.plain;
        self.drafted += other.drafted;
    }
}

impl Costed<'_> {
    /// The times of a completion at each setting. Its prompt has `prompt` tokens. `round` gives the
    /// tokens that a round drafts from a token on, and the draft model's passes for them.
    pub(super) fn times(
        &self,
        found: &Forecast,
        prompt: usize,
        round: impl Fn(usize) -> DraftedRound,
    ) -> Vec<SpentTime> {
        let at = |setting: &CostSetting| {
            let mut time = SpentTime::default();
            for (at, &begins) in found.begins.iter().enumerate() {
                let place = (setting.context.unwrap_or(prompt + at), setting.batch);
                time.plain += self.table.round(DraftedRound::PLAIN, place);
                if begins > 0.0 {
                    let (whole, left) = (round(at), found.begins.len() - at);
                    let (tokens, passes) = (whole.tokens.min(left), whole.passes.min(left));
                    let ended = DraftedRound { tokens, passes };
                    time.drafted += (begins - found.ends[at]) * self.table.round(whole, place)
                        + found.ends[at] * self.table.round(ended, place);
                }
            }
            time
        };
        self.settings.iter().map(at).collect()
    }
}

impl CostTable {
    /// The time of a round at a context and batch, in ms.
    pub fn round(&self, round: DraftedRound, (context, batch): (usize, usize)) -> f64 {
        let (rows, context) = ((round.tokens + 1) as f64, context as f64);
        let draft = match round.passes {
            0 => 0.0,
            passes => passes as f64 * self.draft(context, batch),
        };
        self.target(rows, context, batch) + self.outside(rows, context, batch) + draft
    }

    /// The smallest batch from which on no configuration is faster than plain decoding at a
    /// context; `None` if one of them still is at the largest batch. Each configuration is given by
    /// its number of tokens and its expected rounds by what they draft.
    pub fn pays_until(
        &self,
        configs: &[(f64, Vec<(DraftedRound, f64)>)],
        context: usize,
        batches: RangeInclusive<usize>,
    ) -> Option<usize> {
        let pays = |batch: &usize| {
            configs.iter().any(|(tokens, rounds)| {
                let place = (context, *batch);
                let times = rounds.iter().map(|(round, count)| count * self.round(*round, place));
                times.sum::<f64>() < tokens * self.round(DraftedRound::PLAIN, place)
            })
        };
        match batches.clone().rev().find(pays) {
            Some(last) => (last < *batches.end()).then_some(last + 1),
            None => Some(*batches.start()),
        }
    }

    /// The smallest acceptance, rounded up to 0.001, at which some K up to `most` is faster than
    /// plain decoding, if every drafted token is accepted with this probability; `None` if no K is,
    /// even at 1.
    pub fn break_even(&self, most: usize, place: (usize, usize)) -> Option<f64> {
        let plain = self.round(DraftedRound::PLAIN, place);
        let round = |k| self.round(DraftedRound { tokens: k, passes: k }, place);
        let pays = |alpha: f64| (1..=most).any(|k| expected_tokens(alpha, k) * plain > round(k));
        (0..=1000).map(|i| f64::from(i) / 1000.0).find(|&alpha| pays(alpha))
    }
}
