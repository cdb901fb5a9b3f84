//! The data that figures are drawn from.

use std::collections::BTreeMap;

use crate::experiment::Cell;
use crate::plot::{NEUTRAL, Style, ramp};
use crate::report::best::best;
use crate::report::results::Results;
pub(super) use crate::report::series::once;
use crate::report::series::{Series, series};
use crate::report::validity::TimesValidity;
use crate::rows::{SummaryRow, SurvivalRow};

/// The minimum number of points of a curve.
pub(super) const CURVE: usize = 3;

/// A run and the styles of its methods.
pub(super) struct Data<'a> {
    pub(super) results: &'a Results,
    pub(super) times: TimesValidity,
    /// Their names leave out the first part if all methods share it.
    pub(super) series: Vec<Series<'a>>,
    pub(super) summary: &'a [SummaryRow],
    pub(super) survival: &'a [SurvivalRow],
    pub(super) looks: Looks,
}

/// A cell that a figure shows.
pub(super) struct TableEntry<'d> {
    pub(super) series: &'d Series<'d>,
    pub(super) cell: &'d Cell,
    pub(super) row: &'d SummaryRow,
}

/// The styles of a run's methods and sampling settings.
#[derive(Debug, Default)]
pub(super) struct Looks {
    pub(super) methods: BTreeMap<String, Style>,
    pub(super) samplings: Vec<String>,
}

impl Looks {
    /// The style of a method; [`NEUTRAL`] if it has none of its own.
    pub(super) fn method(&self, name: &str) -> Style {
        self.methods.get(name).copied().unwrap_or(NEUTRAL)
    }

    /// The style of a sampling setting, from a ramp since settings are ordered.
    pub(super) fn sampling(&self, name: &str) -> Style {
        let at = self.samplings.iter().position(|s| s == name).unwrap_or(0);
        ramp(at, self.samplings.len())
    }
}

impl<'a> Data<'a> {
    pub(super) fn new(
        results: &'a Results,
        summary: &'a [SummaryRow],
        survival: &'a [SurvivalRow],
    ) -> Self {
        let (times, series, looks) = (results.times(), series(results), Looks::default());
        let mut data = Self { results, times, series, summary, survival, looks };
        let short = shorten(data.series.iter().map(|s| s.method.clone()).collect());
        data.series.iter_mut().zip(short).for_each(|(series, name)| series.method = name);
        data
    }

    /// The names of the methods, without duplicates, in the order of the plan.
    pub(super) fn methods(&self) -> Vec<&str> {
        once(self.series.iter().map(|s| s.method.as_str()))
    }

    /// The names of the sampling settings, without duplicates, in the order of the plan.
    pub(super) fn samplings(&self) -> Vec<&str> {
        once(self.series.iter().map(|s| s.sampling.as_str()))
    }

    pub(super) fn row(&self, cell: &str) -> Option<&'a SummaryRow> {
        self.summary.iter().find(|row| row.cell == cell)
    }

    /// The cells of a series that were timed.
    pub(super) fn timed<'d>(&self, series: &'d Series<'a>) -> Vec<TableEntry<'d>> {
        let rows = series.cells.iter().filter_map(|cell| Some((*cell, self.row(&cell.id)?)));
        let rows = rows.filter(|(_, row)| row.speedup.is_some());
        rows.map(|(cell, row)| TableEntry { series, cell, row }).collect()
    }

    /// The speedup of a cell, for choosing what to show; 0 if the times give no verdict, so that
    /// the order of the plan decides.
    pub(super) fn speed(&self, row: &SummaryRow) -> f64 {
        row.speedup.filter(|_| self.times.is_valid()).unwrap_or(0.0)
    }

    /// What is shown if there is no room for all, chosen by [`Self::speed`].
    pub(super) fn foremost(&self) -> &'static str {
        if self.times.is_valid() { "the fastest" } else { "the first" }
    }

    /// The cell that stands for a series.
    pub(super) fn best(&self, series: &Series<'a>) -> Option<&'a Cell> {
        best(self.results, series, self.summary).map(|best| best.cell)
    }

    /// The survival rows, from position 1, of the cell with the longest drafts of a series.
    pub(super) fn positions(&self, series: &Series<'a>) -> Vec<&'a SurvivalRow> {
        let longest = series.longest(self.results);
        let rows = self.survival.iter();
        rows.filter(|row| longest.is_some_and(|cell| cell.id == row.cell)).collect()
    }

    /// The name of a cell's method without its settings: the parts among drafter, verifier
    /// and length policy that differ within the run, or the drafter if none do.
    pub(super) fn kin(&self, cell: &Cell) -> String {
        let all = || self.series.iter().map(|s| s.cells[0]);
        let parts: [fn(&Cell) -> &String; 3] =
            [|c| &c.method.drafter, |c| &c.method.verifier, |c| &c.method.length];
        let varying = parts.iter().filter(|part| all().any(|c| part(c) != part(cell)));
        let parts = varying.map(|part| part(cell).as_str()).collect::<Vec<_>>();
        if parts.is_empty() { cell.method.drafter.clone() } else { parts.join(" + ") }
    }

    /// Whether the cells of the run have different draft lengths.
    pub(super) fn lengths_differ(&self) -> bool {
        let mut lengths = self.series.iter().flat_map(|s| &s.cells);
        let first = lengths.next().map(|c| c.method.num_speculative_tokens);
        lengths.any(|c| Some(c.method.num_speculative_tokens) != first)
    }
}

/// Drops the first part of every name if all names share it and have a second part.
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
