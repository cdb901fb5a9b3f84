//! What figures are drawn from.

use super::looks::Looks;
use crate::experiment::Cell;
use crate::report::best::best;
use crate::report::results::Results;
use crate::report::series::{Series, series};
use crate::rows::{SummaryRow, SurvivalRow};

/// Fewer points are no curve.
pub(super) const CURVE: usize = 3;

/// A run and how its methods look.
pub(super) struct Data<'a> {
    pub(super) results: &'a Results,
    /// With names that leave out what all methods have in common.
    pub(super) series: Vec<Series<'a>>,
    pub(super) summary: &'a [SummaryRow],
    pub(super) survival: &'a [SurvivalRow],
    pub(super) looks: Looks,
}

impl<'a> Data<'a> {
    pub(super) fn new(
        results: &'a Results,
        summary: &'a [SummaryRow],
        survival: &'a [SurvivalRow],
    ) -> Self {
        let mut data =
            Self { results, series: series(results), summary, survival, looks: Looks::default() };
        let short = shorten(data.series.iter().map(|s| s.method.clone()).collect());
        data.series.iter_mut().zip(short).for_each(|(series, name)| series.method = name);
        data.looks = Looks::new(&data);
        data
    }

    /// The methods, each once, in the order of the plan.
    pub(super) fn methods(&self) -> Vec<&str> {
        once(self.series.iter().map(|s| s.method.as_str()))
    }

    /// The sampling settings, likewise.
    pub(super) fn samplings(&self) -> Vec<&str> {
        once(self.series.iter().map(|s| s.sampling.as_str()))
    }

    /// The summary row of a cell.
    pub(super) fn row(&self, cell: &str) -> Option<&'a SummaryRow> {
        self.summary.iter().find(|row| row.cell == cell)
    }

    /// The cells of a series that were timed.
    pub(super) fn timed(&self, series: &Series<'a>) -> Vec<(&'a Cell, &'a SummaryRow)> {
        let rows = series.cells.iter().filter_map(|cell| Some((*cell, self.row(&cell.id)?)));
        rows.filter(|(_, row)| row.speedup.is_some()).collect()
    }

    /// The fastest cell of a series.
    pub(super) fn best(&self, series: &Series<'a>) -> Option<&'a Cell> {
        best(self.results, series, self.summary).map(|best| best.cell)
    }

    /// Positions of the longest drafts of a series, from 1 on.
    pub(super) fn positions(&self, series: &Series<'a>) -> Vec<&'a SurvivalRow> {
        let longest = series.longest(self.results);
        let rows = self.survival.iter();
        rows.filter(|row| longest.is_some_and(|cell| cell.id == row.cell)).collect()
    }

    /// What a cell's method is without its settings, as far as methods of the run differ.
    pub(super) fn kin(&self, cell: &Cell) -> String {
        let all = || self.series.iter().map(|s| s.cells[0]);
        let parts: [fn(&Cell) -> &String; 3] =
            [|c| &c.method.drafter, |c| &c.method.verifier, |c| &c.method.length];
        let varying = parts.iter().filter(|part| all().any(|c| part(c) != part(cell)));
        let parts = varying.map(|part| part(cell).as_str()).collect::<Vec<_>>();
        if parts.is_empty() { cell.method.drafter.clone() } else { parts.join(" + ") }
    }

    /// Whether cells of the run differ in the draft length.
    pub(super) fn lengths_differ(&self) -> bool {
        let mut lengths = self.series.iter().flat_map(|s| &s.cells);
        let first = lengths.next().map(|c| c.method.num_speculative_tokens);
        lengths.any(|c| Some(c.method.num_speculative_tokens) != first)
    }
}

/// What several things are called, each once.
pub(super) fn once<'n>(names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// Names without the first part, if that is the same in all and none is left empty.
fn shorten(names: Vec<String>) -> Vec<String> {
    let rest = |name: &String| {
        let (at, separator) = [" + ", ", "]
            .into_iter()
            .filter_map(|separator| Some((name.find(separator)?, separator)))
            .min()?;
        Some((name[..at].to_owned(), name[at + separator.len()..].to_owned()))
    };
    let parts = names.iter().map(rest).collect::<Option<Vec<_>>>();
    match parts {
        Some(parts) if parts.iter().all(|(first, _)| *first == parts[0].0) => {
            parts.into_iter().map(|(_, rest)| rest).collect()
        }
        _ => names,
    }
}
