//! One generation of a cell, and its rows.

use std::sync::atomic::Ordering;

use anyhow::Result;
use sha2::{Digest, Sha256};

use super::blocks::Block;
use super::cell::Cell;
use super::recorder::{Recorder, micros};
use super::setup::Setup;
use crate::chance::Seeded;
use crate::decode::{Generation, Method, StopReason, StopRules, UserStop, generate};
use crate::draft::Tools;
use crate::model::hex;
use crate::rows::{FailureRow, GenerationRow, PositionRow, RoundRow, TextRow};

/// A finished generation.
#[derive(Debug)]
pub(super) struct FinishedGeneration {
    pub(super) row: GenerationRow,
    pub(super) text: TextRow,
    pub(super) rounds: Vec<RoundRow>,
    pub(super) positions: Vec<PositionRow>,
}

/// Begins a generation of a block's prompt. If the run is interrupted, the generation
/// ends with its current round.
pub(super) fn begin<'a>(
    setup: &'a Setup<'_>,
    method: Method<'a>,
    block: &Block<'_>,
) -> Result<Generation<'a>> {
    let interrupted: UserStop<'_> = Box::new(|_, _| setup.interrupted.load(Ordering::Relaxed));
    let user = Some(interrupted);
    let mut stop = StopRules { user, ..StopRules::max_tokens(setup.plan.max_tokens) };
    if !setup.plan.ignore_eos {
        stop.eos = setup.target.info().eos.clone();
    }
    Ok(Generation::new(setup.target, method, block.tokens, stop, Some(setup.codec))?)
}

/// Runs one generation. This is the only function that is ever timed, for baseline, cells
/// and warm-up alike.
pub(super) fn one(setup: &Setup<'_>, cell: &Cell, block: &Block<'_>) -> Result<FinishedGeneration> {
    let plan = setup.plan;
    let (draft, target) = (setup.draft, Some(setup.target));
    let tools = Tools { draft, target, texts: Some(setup.texts) };
    let method = cell.method.build_with(tools)?;
    let mut generation = begin(setup, method, block)?;
    let mut chance = Seeded::new(block.request(plan.seed));
    let mut recorder = Recorder::new(cell, &block.prompt.id, block.repeat, plan.trace)?;
    let totals = generate(&mut generation, setup.target, &mut chance, setup.clock, &mut recorder)?;
    let new_tokens = generation.new_tokens().len();
    let seconds = totals.decode.as_secs_f64();
    let text = generation.text().to_owned();
    Ok(FinishedGeneration {
        row: GenerationRow {
            cell: cell.id.clone(),
            prompt: block.prompt.id.clone(),
            category: block.prompt.category.clone(),
            repeat: block.repeat,
            seed: plan.seed,
            prompt_tokens: block.tokens.len(),
            new_tokens,
            stop_reason: generation.stopped().map_or("", StopReason::name).to_owned(),
            target_forwards: totals.target_forwards,
            draft_forwards: totals.draft_forwards,
            prefill_us: micros(totals.prefill),
            decode_us: micros(totals.decode),
            tokens_per_second: if seconds > 0.0 { new_tokens as f64 / seconds } else { 0.0 },
            first_divergence: None,
            text_sha256: hex(&Sha256::digest(&text)),
            superseded: false,
        },
        text: TextRow {
            cell: cell.id.clone(),
            prompt: block.prompt.id.clone(),
            repeat: block.repeat,
            tokens: generation.new_tokens().to_vec(),
            text,
        },
        rounds: recorder.rounds,
        positions: recorder.positions,
    })
}

/// The failure of a cell in this block; `what` says what failed and comes before the
/// error.
pub(super) fn failure(
    cell: &Cell,
    block: &Block<'_>,
    error: &anyhow::Error,
    what: &str,
) -> FailureRow {
    FailureRow {
        cell: cell.id.clone(),
        prompt: block.prompt.id.clone(),
        repeat: block.repeat,
        reason: format!("{what}{error:#}").replace(char::is_control, " "),
        superseded: false,
    }
}
