//! One generation of a cell, and its rows.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::blocks::Block;
use super::cell::Cell;
use super::recorder::{Recorder, micros};
use super::setup::Setup;
use super::tracer::{Tracer, records};
use crate::beam::{BeamObserver, BeamSearch, BeamSettings, BeamStep, BeamTotals, drafting};
use crate::chance::Seeded;
use crate::clock::Who;
use crate::decode::{Generation, Method, StopReason, StopRules, Totals, UserStop, generate};
use crate::distribution::Token;
use crate::draft::{Texts, Tools};
use crate::model::{LanguageModel, Prefilled, hex};
use crate::rows::{BeamRow, FailureRow, GenerationRow, PositionRow, RoundRow, TextRow, TraceRow};

/// A finished generation.
#[derive(Debug)]
pub(super) struct FinishedGeneration {
    pub(super) row: GenerationRow,
    pub(super) text: TextRow,
    pub(super) rounds: Vec<RoundRow>,
    pub(super) positions: Vec<PositionRow>,
    pub(super) trace: Option<TraceRow>,
}

/// The models of a block: its generations share one prefill of each.
#[derive(Debug)]
pub(super) struct BlockModels<'a> {
    target: Prefilled<'a>,
    draft: Option<Prefilled<'a>>,
    /// The target in the place of a draft model, as the oracle uses it.
    drafting_target: Prefilled<'a>,
}

impl<'a> BlockModels<'a> {
    /// The models of a run, for a block's prompt.
    pub(super) fn new(setup: &Setup<'a>, block: &Block<'a>) -> Self {
        let head = block.tokens.split_last().map_or(&[][..], |(_, head)| head);
        let prefilled = |model, who| Prefilled::new(model, who, head, setup.clock);
        Self {
            target: prefilled(setup.target, Who::Target),
            draft: setup.draft.map(|draft| prefilled(draft, Who::Draft)),
            drafting_target: prefilled(setup.target, Who::Draft),
        }
    }

    /// What a method is built with.
    fn tools<'t>(&'t self, texts: &'t Texts<'t>) -> Tools<'t> {
        let draft = self.draft.as_ref().map(|draft| draft as &dyn LanguageModel);
        Tools { draft, target: Some(&self.drafting_target), texts: Some(texts) }
    }

    /// See [`Prefilled::charged`].
    fn charged(&self) -> Duration {
        let models = [Some(&self.target), self.draft.as_ref(), Some(&self.drafting_target)];
        models.into_iter().flatten().map(Prefilled::charged).sum()
    }
}

/// Begins a generation of a block's prompt. If the run is interrupted, the generation
/// ends with its current round.
pub(super) fn begin<'a>(
    setup: &'a Setup<'_>,
    target: &dyn LanguageModel,
    method: Method<'a>,
    block: &Block<'_>,
) -> Result<Generation<'a>> {
    let interrupted: UserStop<'_> = Box::new(|_, _| setup.interrupted.load(Ordering::Relaxed));
    let stop = StopRules { user: Some(interrupted), ..stop_rules(setup, target) };
    Ok(Generation::new(target, method, block.tokens, stop, Some(setup.codec))?)
}

/// Where the texts of a run end.
fn stop_rules<'a>(setup: &Setup<'_>, target: &dyn LanguageModel) -> StopRules<'a> {
    let mut stop = StopRules::max_tokens(setup.plan.max_tokens);
    if !setup.plan.ignore_eos {
        stop.eos = target.info().eos.clone();
    }
    stop
}

/// Runs one generation. This is the only function that is ever timed, for baseline, cells
/// and warm-up alike.
pub(super) fn one(
    setup: &Setup<'_>,
    models: &BlockModels<'_>,
    cell: &Cell,
    block: &Block<'_>,
) -> Result<FinishedGeneration> {
    let (plan, charged) = (setup.plan, models.charged());
    let made = match cell.beam {
        Some(settings) => searched(setup, models, cell, settings, block)?,
        None => drawn(setup, models, cell, block)?,
    };
    let shared_prefill = models.charged() - charged;
    let MadeText { tokens, text, stop_reason, totals, beam, rounds, positions, trace } = made;
    let seconds = totals.decode.as_secs_f64();
    Ok(FinishedGeneration {
        row: GenerationRow {
            cell: cell.id.clone(),
            prompt: block.prompt.id.clone(),
            category: block.prompt.category.clone(),
            repeat: block.repeat,
            seed: plan.seed,
            prompt_tokens: block.tokens.len(),
            new_tokens: tokens.len(),
            stop_reason: stop_reason.map_or("", StopReason::name).to_owned(),
            target_forwards: totals.target_forwards,
            draft_forwards: totals.draft_forwards,
            prefill_us: micros(shared_prefill + totals.prefill),
            decode_us: micros(totals.decode),
            tokens_per_second: if seconds > 0.0 { tokens.len() as f64 / seconds } else { 0.0 },
            first_divergence: None,
            text_sha256: hex(&Sha256::digest(&text)),
            superseded: false,
        },
        text: TextRow {
            cell: cell.id.clone(),
            prompt: block.prompt.id.clone(),
            repeat: block.repeat,
            tokens,
            text,
            beam,
        },
        rounds,
        positions,
        trace,
    })
}

/// What a generation made, and what it cost.
struct MadeText {
    tokens: Vec<Token>,
    text: String,
    stop_reason: Option<StopReason>,
    totals: Totals,
    beam: Option<BeamRow>,
    rounds: Vec<RoundRow>,
    positions: Vec<PositionRow>,
    trace: Option<TraceRow>,
}

/// Draws a text token by token.
fn drawn(
    setup: &Setup<'_>,
    models: &BlockModels<'_>,
    cell: &Cell,
    block: &Block<'_>,
) -> Result<MadeText> {
    let (plan, target) = (setup.plan, &models.target);
    let method = cell.method.build_with(models.tools(setup.texts))?;
    let mut generation = begin(setup, target, method, block)?;
    let mut chance = Seeded::new(block.request(plan.seed));
    let tracer = records(setup, block).then(Tracer::default);
    let mut recorder = Recorder::new(cell, &block.prompt.id, block.repeat, plan.trace, tracer)?;
    let totals = generate(&mut generation, target, &mut chance, setup.clock, &mut recorder)?;
    let tokens = generation.new_tokens().to_vec();
    let row = |tracer: Tracer| tracer.row(setup.codec, cell, block, &tokens);
    Ok(MadeText {
        trace: recorder.tracer.map(row),
        tokens,
        text: generation.text().to_owned(),
        stop_reason: generation.stopped(),
        totals,
        beam: None,
        rounds: recorder.rounds,
        positions: recorder.positions,
    })
}

/// Finds the best text of a beam search. It has no rounds.
fn searched(
    setup: &Setup<'_>,
    models: &BlockModels<'_>,
    cell: &Cell,
    settings: BeamSettings,
    block: &Block<'_>,
) -> Result<MadeText> {
    let (plan, target) = (setup.plan, &models.target);
    let method = drafting(&cell.method).build_with(models.tools(setup.texts))?;
    let (prompt, codec) = (block.tokens, Some(setup.codec));
    let search = BeamSearch { target, settings, prompt, stop: stop_rules(setup, target), codec };
    let request = block.request(plan.seed);
    let mut chance = Seeded::new(request);
    let mut until = UntilInterrupted(setup.interrupted);
    let found = search.run(method, (&mut chance, setup.clock), &mut until)?;
    let best = found.texts.into_iter().next().context("the search has found no text")?;
    let BeamTotals { steps, rows, target_forwards, draft_forwards, prefill, decode } = found.totals;
    Ok(MadeText {
        text: search.text(&best.tokens, setup.codec)?,
        tokens: best.tokens,
        stop_reason: Some(best.reason),
        totals: Totals { target_forwards, draft_forwards, prefill, decode },
        beam: Some(BeamRow { log_prob: best.log_prob, score: best.score, steps, rows }),
        rounds: Vec::new(),
        positions: Vec::new(),
        trace: None,
    })
}

/// Ends a search when the run is interrupted.
struct UntilInterrupted<'a>(&'a AtomicBool);

impl BeamObserver for UntilInterrupted<'_> {
    fn step(&mut self, _: &BeamStep<'_>) -> ControlFlow<()> {
        if self.0.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
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
