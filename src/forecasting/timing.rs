//! Times of texts, from their rounds and the costs of passes.

use std::ops::{AddAssign, RangeInclusive};

use serde::Serialize;

use super::costs::CostTable;
use crate::statistics::expected_tokens;
use crate::tape::{Forecast, TextOdds};

/// What passes cost depends on this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct CostSetting {
    /// Sequences that share a pass, all of which proceed alike.
    pub batch: usize,
    /// The tokens before each pass; none for those that the texts have.
    pub context: Option<usize>,
}

/// Costs, and the settings for which times are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Costed<'a> {
    /// The costs.
    pub table: &'a CostTable,
    /// The settings.
    pub settings: &'a [CostSetting],
}

/// The times of some texts, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SpentTime {
    /// That of plain decoding.
    pub plain: f64,
    /// The expected one with drafts.
    pub drafted: f64,
}

impl AddAssign for SpentTime {
    fn add_assign(&mut self, other: Self) {
        self.plain += other.plain;
        self.drafted += other.drafted;
    }
}

impl Costed<'_> {
    /// The times of a text at each setting; its prompt has `prompt` tokens, and `with_model` says
    /// whether drafting a token takes a pass of a draft model.
    pub(super) fn times(
        &self,
        odds: &TextOdds,
        found: &Forecast,
        k: usize,
        (prompt, with_model): (usize, bool),
    ) -> Vec<SpentTime> {
        let at = |setting: &CostSetting| match setting.context {
            Some(context) => {
                let place = (context, setting.batch, with_model);
                self.table.of_rounds(odds.text().tokens as f64, &found.drafts, place)
            }
            None => {
                let mut time = SpentTime::default();
                for (at, &begins) in found.begins.iter().enumerate() {
                    let place = (prompt + at, setting.batch, with_model);
                    time.plain += self.table.round(0, place);
                    if begins > 0.0 {
                        time.drafted += begins * self.table.round(odds.drafted(at, k), place);
                    }
                }
                time
            }
        };
        self.settings.iter().map(at).collect()
    }
}

impl CostTable {
    /// A round that drafts so many tokens, at a context and batch, in ms.
    fn round(&self, drafted: usize, (context, batch, with_model): (usize, usize, bool)) -> f64 {
        let rows = drafted + 1;
        let draft = if with_model { drafted as f64 * self.draft(context, batch) } else { 0.0 };
        self.target(rows, context, batch) + self.outside(rows, context, batch) + draft
    }

    /// The time of rounds, counted by the number of tokens that they draft, and of plain decoding
    /// for as many tokens.
    fn of_rounds(&self, tokens: f64, drafts: &[f64], place: (usize, usize, bool)) -> SpentTime {
        let rounds = drafts.iter().enumerate().filter(|(_, rounds)| **rounds > 0.0);
        let drafted = rounds.map(|(drafted, rounds)| rounds * self.round(drafted, place));
        SpentTime { plain: tokens * self.round(0, place), drafted: drafted.sum() }
    }

    /// The smallest of some batches from which on none of the ways to decode is faster than plain
    /// decoding at a context; `None` if one of them always is. A way is a number of tokens, the
    /// rounds that they take by the number of tokens that a round drafts, and whether a model
    /// drafts them.
    pub fn pays_until(
        &self,
        ways: &[(f64, Vec<f64>, bool)],
        context: usize,
        batches: RangeInclusive<usize>,
    ) -> Option<usize> {
        let pays = |batch: &usize| {
            ways.iter().any(|(tokens, drafts, with_model)| {
                let time = self.of_rounds(*tokens, drafts, (context, *batch, *with_model));
                time.drafted < time.plain
            })
        };
        match batches.clone().rev().find(pays) {
            Some(last) => (last < *batches.end()).then_some(last + 1),
            None => Some(*batches.start()),
        }
    }

    /// The smallest acceptance, rounded up to 0.001, at which some K up to `most` is faster than
    /// plain decoding, if every drafted token is accepted with this probability; `None` if none
    /// is even at 1.
    pub fn break_even(&self, most: usize, place: (usize, usize, bool)) -> Option<f64> {
        let pays = |alpha: f64| {
            (1..=most)
                .any(|k| expected_tokens(alpha, k) * self.round(0, place) > self.round(k, place))
        };
        (0..=1000).map(|i| f64::from(i) / 1000.0).find(|&alpha| pays(alpha))
    }
}
