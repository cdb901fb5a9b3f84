//! The rounds of a run of specdec.

use std::path::Path;

use anyhow::{Result, bail};

use super::logged::RequestRounds;
use super::{TapeFormat, TapeReader};
use crate::core::sampling::SamplingParams;
use crate::measure::statistics::{Sample, branches};
use crate::run::experiment::{Cell, Plan, PlannedModel, describe};
use crate::run::report::{CellView, Run, load};
use crate::tapes::tape::{AcceptanceRule, LoggedRound, TapeDrafter, TapeLog, TapeModel};

pub(super) const FORMAT: TapeFormat = TapeFormat {
    name: "specdec",
    summary: "a results folder: the rounds of its cells with chains of drafts; for simulation alone",
    read: TapeReader::Run(read),
};

/// The contents of a results folder.
pub(super) struct LoggedRun {
    pub(super) target: TapeModel,
    pub(super) samplings: Vec<SamplingParams>,
    pub(super) drafters: Vec<TapeDrafter>,
    pub(super) logs: Vec<TapeLog>,
}

/// The requests of its cells with chains of drafts.
pub(super) fn read_logs(folder: &Path) -> Result<Vec<RequestRounds>> {
    let own = load(folder)?;
    let of = |cell: &CellView| {
        let logs = logs(cell, (0, 0)).into_iter();
        logs.map(|log| RequestRounds::of_log(log, describe(cell))).collect::<Vec<_>>()
    };
    let found = chains(&own).flat_map(of).collect::<Vec<_>>();
    if found.is_empty() {
        bail!("{} has no rounds with chains of drafts and a rule for them", folder.display());
    }
    Ok(found)
}

/// The cells with chains of drafts and a rule for them.
fn chains(run: &Run) -> impl Iterator<Item = &CellView> {
    let rule = |cell: &Cell| {
        AcceptanceRule::ALL.iter().any(|rule| rule.verifier() == cell.method.verifier)
    };
    let drafts = move |cell: &&CellView| {
        let decodes = cell.series.is_some() && cell.beam.is_none();
        decodes && rule(cell) && !branches(&cell.samples)
    };
    run.cells.iter().filter(drafts)
}

fn read(folder: &Path) -> Result<LoggedRun> {
    let own = load(folder)?;
    let plan = &own.plan;
    let mut run = LoggedRun {
        target: model(&plan.target),
        samplings: Vec::new(),
        drafters: Vec::new(),
        logs: Vec::new(),
    };
    for cell in chains(&own) {
        let sampling = index_of(&mut run.samplings, cell.method.sampling.clone());
        let drafter = index_of(&mut run.drafters, drafter(cell, plan));
        run.logs.extend(logs(cell, (sampling, drafter)));
    }
    if run.logs.is_empty() {
        bail!("{} has no rounds with chains of drafts and a rule for them", folder.display());
    }
    Ok(run)
}

/// What drafts in a cell, with its K.
fn drafter(cell: &Cell, plan: &Plan) -> TapeDrafter {
    let method = &cell.method;
    let draft = plan.draft.as_ref().filter(|_| method.needs_draft_model());
    TapeDrafter {
        drafter: method.drafter.clone(),
        model: draft.map(model),
        length: (method.length != "fixed").then(|| method.length.clone()),
        params: method.params.clone(),
        most: Some(method.num_speculative_tokens),
    }
}

fn model(plan: &PlannedModel) -> TapeModel {
    TapeModel {
        name: plan.name.clone(),
        sha256: plan.sha256.clone(),
        engine: plan.engine.clone(),
        dtype: plan.dtype.clone(),
        at_once: plan.at_once,
        ..TapeModel::default()
    }
}

fn logs(cell: &CellView, (sampling, drafter): (usize, usize)) -> Vec<TapeLog> {
    let samples = cell.samples.iter().filter(|sample| !sample.rounds.is_empty());
    let log = |sample: &Sample| TapeLog {
        drafter,
        prompt: sample.prompt.to_string(),
        category: sample.category.to_string(),
        verifier: Some(cell.method.verifier.clone()),
        sampling,
        prompt_tokens: sample.rounds.begin,
        tokens: sample.new_tokens,
        rounds: sample
            .rounds
            .iter()
            .map(|round| LoggedRound { accepted: round.accepted, drafted: round.proposed })
            .collect(),
        sequence: None,
        unordered: false,
    };
    samples.map(log).collect()
}

/// The index of a value in a list; the value is added if it is missing.
fn index_of<T: PartialEq>(list: &mut Vec<T>, value: T) -> usize {
    list.iter().position(|known| *known == value).unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    })
}
