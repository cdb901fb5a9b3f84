//! The data that figures are drawn from.

use std::collections::BTreeMap;

use crate::measure::plot::{NEUTRAL, Style, ramp};
use crate::run::experiment::Cell;
use crate::run::report::run::{CellView, Run, Series};
pub(super) use crate::run::report::series::once;

/// The minimum number of points of a curve.
pub(super) const CURVE: usize = 3;

/// A run and the styles of its methods.
pub(super) struct Data<'a> {
    pub(super) run: &'a Run,
    pub(super) looks: Looks,
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
    /// The names of the methods, without duplicates, in the order of the plan.
    pub(super) fn methods(&self) -> Vec<&'a str> {
        once(self.run.series().map(|series| series.first().short.as_str()))
    }

    /// The names of the sampling settings, without duplicates, in the order of the plan.
    pub(super) fn samplings(&self) -> Vec<&'a str> {
        once(self.run.series().map(|series| series.first().sampling.as_str()))
    }

    /// The speedup of a cell, for choosing what to show; 0 if the times give no verdict, so that
    /// the order of the plan decides.
    pub(super) fn speed(&self, cell: &CellView) -> f64 {
        cell.row.speedup.filter(|_| self.run.times.is_valid()).unwrap_or(0.0)
    }

    /// What is shown if there is no room for all, chosen by [`Self::speed`].
    pub(super) fn foremost(&self) -> &'static str {
        if self.run.times.is_valid() { "the fastest" } else { "the first" }
    }

    /// The name of a cell's method without its settings: the parts among drafter, verifier
    /// and length policy that differ within the run, or the drafter if none do.
    pub(super) fn kin(&self, cell: &Cell) -> String {
        let all = || self.run.drafted();
        let parts: [fn(&Cell) -> &String; 3] =
            [|c| &c.method.drafter, |c| &c.method.verifier, |c| &c.method.length];
        let varying = parts.iter().filter(|part| all().any(|c| part(c) != part(cell)));
        let parts = varying.map(|part| part(cell).as_str()).collect::<Vec<_>>();
        if parts.is_empty() { cell.method.drafter.clone() } else { parts.join(" + ") }
    }

    /// Whether the cells of the run have different draft lengths.
    pub(super) fn lengths_differ(&self) -> bool {
        let mut lengths = self.run.drafted().map(|cell| cell.method.num_speculative_tokens);
        let first = lengths.next();
        lengths.any(|k| Some(k) != first)
    }
}

/// The cells of a series that were timed.
pub(super) fn timed<'a>(series: &Series<'a>) -> Vec<&'a CellView> {
    series.cells.iter().copied().filter(|cell| cell.row.speedup.is_some()).collect()
}
