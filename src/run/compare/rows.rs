//! The cells of a comparison, and its rows.

use std::collections::BTreeSet;

use serde::Serialize;

use super::extent::end_alike;
use super::side::RunSide;
use crate::measure::statistics::{Contrast, ContrastFinding, Measure};
use crate::run::experiment::describe;
use crate::run::report::CellView;

/// A cell that both runs have.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ComparedCell {
    /// Its id in each run; equal if nothing differs that may change tokens.
    pub ids: [String; 2],
    /// The method and sampling setting in words.
    pub method: String,
    /// The same, with only what varies within the first run.
    pub short: String,
    /// Whether it is plain decoding.
    pub baseline: bool,
    /// How many texts are the same; `None` where chance has a part in them.
    pub texts: Option<ComparedTexts>,
    /// One row per measure that both runs have.
    pub rows: Vec<ComparedRow>,
}

impl ComparedCell {
    /// The cell without rows; its texts are those on `prompts`.
    pub(super) fn of(
        sides: [&RunSide; 2],
        [own, other]: [&CellView; 2],
        prompts: &BTreeSet<String>,
    ) -> Self {
        Self {
            ids: [own.id.clone(), other.id.clone()],
            method: describe(own),
            short: short(own),
            baseline: own.is_baseline(),
            texts: ComparedTexts::of(sides, [own, other], prompts),
            rows: Vec::new(),
        }
    }

    /// The row of a measure.
    pub fn row(&self, measure: Measure) -> Option<&ComparedRow> {
        self.rows.iter().find(|row| row.measure == measure)
    }
}

/// The name of a cell with only what varies within its run.
fn short(cell: &CellView) -> String {
    let (k, sampling) = (cell.method.num_speculative_tokens, &cell.sampling);
    match cell.is_baseline() {
        true if cell.beam.is_some() => format!("no drafts, {sampling}"),
        true => format!("plain decoding, {sampling}"),
        false => format!("{}, K = {k}, {sampling}", cell.name),
    }
}

/// Texts of a cell in which chance has no part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ComparedTexts {
    /// The texts that both runs have.
    pub compared: usize,
    /// Those that are the same in both or, if the runs end texts at different tokens, in the tokens
    /// that both have.
    pub equal: usize,
}

impl ComparedTexts {
    /// The texts of a cell on some prompts; `None` where chance has a part in them, and where a
    /// beam search of another length looks for another text.
    fn of(
        [first, second]: [&RunSide; 2],
        [own, other]: [&CellView; 2],
        prompts: &BTreeSet<String>,
    ) -> Option<Self> {
        let plans = [first, second].map(|side| &side.run.plan);
        let alike = end_alike(plans);
        (own.is_determined() && (alike || own.beam.is_none())).then_some(())?;
        let only_one_ends = plans[0].ignore_eos != plans[1].ignore_eos;
        let mut found = Self { compared: 0, equal: 0 };
        let own = first.texts.iter().filter(|((cell, ..), _)| *cell == own.id);
        for ((_, prompt, repeat), text) in
            own.filter(|((_, prompt, _), _)| prompts.contains(prompt))
        {
            let place = (other.id.clone(), prompt.clone(), *repeat);
            let Some(theirs) = second.texts.get(&place) else { continue };
            let equal = match alike {
                true => Some(text.equals(theirs)),
                false => text.begins_alike(theirs, only_one_ends),
            };
            found.compared += usize::from(equal.is_some());
            found.equal += usize::from(equal == Some(true));
        }
        Some(found)
    }
}

/// A measure of a cell in two runs: a row of `--csv`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedRow {
    /// What is compared.
    pub measure: Measure,
    /// The prompts over which it is compared.
    pub prompts: usize,
    /// Its value in the first run.
    pub first: f64,
    /// Its value in the second run.
    pub second: f64,
    /// Second ÷ first; `None` if the first is 0.
    pub ratio: Option<f64>,
    /// Lower end of its 95 % interval over prompts.
    pub ratio_lo: Option<f64>,
    /// Upper end of that interval.
    pub ratio_hi: Option<f64>,
    /// The p-value of the sign-flip test.
    pub p: f64,
    /// Whether all sign patterns were counted.
    pub exact: bool,
    /// The p-value after Holm's adjustment for all cells that have the measure.
    pub p_holm: f64,
    /// What the test shows.
    pub finding: ContrastFinding,
}

impl ComparedRow {
    pub(super) fn new(measure: Measure, contrast: &Contrast) -> Self {
        let (ratio_lo, ratio_hi) = contrast.interval.map(|i| (i.lo, i.hi)).unzip();
        Self {
            measure,
            prompts: contrast.prompts,
            first: contrast.values[0],
            second: contrast.values[1],
            ratio: contrast.ratio,
            ratio_lo,
            ratio_hi,
            p: contrast.test.p,
            exact: contrast.test.exact,
            p_holm: contrast.adjusted,
            finding: contrast.finding(),
        }
    }

    /// A mark next to the ratio: `*` if a difference is shown, `?` if prompts and sums point in
    /// opposite ways, else nothing.
    pub fn mark(&self) -> &'static str {
        match self.finding {
            ContrastFinding::Larger | ContrastFinding::Smaller => "*",
            ContrastFinding::Mixed => "?",
            ContrastFinding::Equal | ContrastFinding::NotShown | ContrastFinding::TooFew => "",
        }
    }
}
