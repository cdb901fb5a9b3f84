//! The report for programs: what `specdec report --json` prints. `docs/metrics.md` defines every
//! field, and a test compares it with what is printed.

use serde::Serialize;
use serde_json::{Map, Value};

use super::loops::LoopShares;
use super::run::{CellView, Run};
use super::validity::SpeedVerdict;
use super::warnings::warnings;
use crate::io::shown::cell::original;
use crate::run::experiment::Status;

/// The version of the object: another one if a field is removed, renamed or redefined.
const FORMAT: u32 = 1;

/// A report as one JSON object.
#[derive(Debug, Clone, Serialize)]
pub struct ReportJson {
    format: u32,
    experiment: String,
    question: String,
    status: Status,
    specdec: String,
    git_commit: String,
    git_dirty: bool,
    prompts: usize,
    generations: usize,
    tokens: usize,
    invalid_times: Vec<String>,
    warnings: Vec<String>,
    cells: Vec<CellJson>,
}

/// A cell: its row of `summary.csv`, and what the report concludes from it.
#[derive(Debug, Clone, Serialize)]
struct CellJson {
    method: String,
    sampling: String,
    best: bool,
    verdict: Option<SpeedVerdict>,
    #[serde(flatten)]
    row: Map<String, Value>,
}

impl ReportJson {
    pub(super) fn new(run: &Run) -> serde_json::Result<Self> {
        let build = &run.session().build;
        let loops = LoopShares::of(run).filter(|loops| loops.alarming);
        Ok(Self {
            format: FORMAT,
            experiment: run.plan.experiment.clone(),
            question: run.plan.question.clone(),
            status: run.manifest.status,
            specdec: build.specdec.clone(),
            git_commit: build.git_commit.clone(),
            git_dirty: build.git_dirty,
            prompts: run.plan.prompts.len(),
            generations: run.samples().count(),
            tokens: run.samples().map(|sample| sample.new_tokens).sum(),
            invalid_times: run.times.reasons.iter().map(|reason| reason.sentence()).collect(),
            warnings: loops.map(|loops| loops.words()).into_iter().chain(warnings(run)).collect(),
            cells: run.cells.iter().map(CellJson::new).collect::<serde_json::Result<_>>()?,
        })
    }
}

impl CellJson {
    fn new(cell: &CellView) -> serde_json::Result<Self> {
        let mut row = serde_json::from_value::<Map<_, _>>(serde_json::to_value(&cell.row)?)?;
        // JSON needs no guard against spreadsheets.
        for value in row.values_mut() {
            if let Value::String(text) = value {
                *text = original(text).to_owned();
            }
        }
        Ok(Self {
            method: cell.name.clone(),
            sampling: cell.sampling.clone(),
            best: cell.best,
            verdict: (!cell.is_baseline()).then_some(cell.verdict),
            row,
        })
    }
}
