//! Costs as they were while requests were played: those of a file, scaled to what passes took.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::meter::PlayedStep;
use crate::bench::{
    CostRow, DRAFT_COST, DRAFT_PREFILL_COST, OUTSIDE_COST, PREFILL_COST, TARGET_COST,
};
use crate::error::Error;
use crate::forecasting::CostTable;
use crate::simulation::{StepCosts, StepMs, StepWork};

/// What was played, beside what a file of costs says.
#[derive(Debug, Clone)]
pub struct PlayedCosts {
    rows: Vec<CostRow>,
    table: CostTable,
    /// By kind and batch of the file.
    sums: BTreeMap<(&'static str, usize), Times>,
}

/// Sums of times in ms.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Times {
    expected: f64,
    taken: f64,
}

impl Times {
    fn add(&mut self, other: Self) {
        self.expected += other.expected;
        self.taken += other.taken;
    }

    /// Taken ÷ expected; `None` if nothing was expected.
    fn ratio(self) -> Option<f64> {
        (self.expected > 0.0).then(|| self.taken / self.expected)
    }
}

/// A kind of costs, and how many times as long it took as the file says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CostRatio {
    /// The file's name for it.
    pub what: &'static str,
    /// Time taken ÷ time that the file says; `None` if it says nothing.
    pub ratio: Option<f64>,
}

impl PlayedCosts {
    /// Reads a file of costs.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn read(file: &Path) -> Result<Self> {
        let table = CostTable::read(file)?;
        let rows = csv::Reader::from_path(file).map_err(|error| Error::file(file, error))?;
        let rows = rows.into_deserialize().collect::<Result<_, csv::Error>>()?;
        Ok(Self { rows, table, sums: BTreeMap::new() })
    }

    /// Holds a step against them; `with_model`: a model drafts.
    pub fn add(&mut self, step: &PlayedStep, with_model: bool) {
        let costs = StepCosts { table: &self.table, with_model };
        let took = step.took;
        if step.drafts.is_empty() {
            let expected = costs.prompt(step.prompt);
            // A simulation charges nothing else for them.
            let target = took.target + took.outside;
            self.count(PREFILL_COST, 1, expected.target, target);
            self.count(DRAFT_PREFILL_COST, 1, expected.draft, took.draft);
            return;
        }
        let work = StepWork { drafts: &step.drafts, context: step.context, ..StepWork::default() };
        let StepMs { draft, target, outside } = costs.step(&work);
        let distance = |batch: &usize| batch.abs_diff(step.drafts.len());
        let batch = self.table.batches().min_by_key(distance).unwrap_or(1);
        self.count(TARGET_COST, batch, target, took.target);
        self.count(DRAFT_COST, batch, draft, took.draft);
        self.count(OUTSIDE_COST, batch, outside, took.outside);
    }

    fn count(&mut self, what: &'static str, batch: usize, expected: f64, taken: f64) {
        self.sums.entry((what, batch)).or_default().add(Times { expected, taken });
    }

    /// A kind as a whole.
    fn of_kind(&self, what: &str) -> Times {
        let mut all = Times::default();
        let own = self.sums.iter().filter(|((kind, _), _)| *kind == what);
        own.for_each(|(_, times)| all.add(*times));
        all
    }

    /// What was played took how many times as long as the file says, by kind.
    pub fn ratios(&self) -> Vec<CostRatio> {
        let kinds = [TARGET_COST, DRAFT_COST, OUTSIDE_COST, PREFILL_COST, DRAFT_PREFILL_COST];
        let played = kinds.into_iter().filter(|what| self.of_kind(what).taken > 0.0);
        played.map(|what| CostRatio { what, ratio: self.of_kind(what).ratio() }).collect()
    }

    /// The rows of the file, each as many times as large as its kind took longer in batches of
    /// its size; in batches that were not played, as its kind took longer in all others.
    pub fn rows(&self) -> Vec<CostRow> {
        let scaled = |row: &CostRow| {
            let what = if row.what.is_empty() { TARGET_COST } else { &row.what };
            let own = self.sums.get(&(what, row.batch)).and_then(|times| times.ratio());
            let ratio = own.or_else(|| self.of_kind(what).ratio()).unwrap_or(1.0);
            CostRow { ms: row.ms * ratio, ..row.clone() }
        };
        self.rows.iter().map(scaled).collect()
    }
}
