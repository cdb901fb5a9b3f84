//! One generation of a cell, and its rows.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::blocks::{Block, BlockText};
use super::cell::Cell;
use super::recorder::{Recorder, micros};
use super::setup::Setup;
use super::thinking::thinking;
use super::tracer::{Tracer, records};
use crate::core::chance::Seeded;
use crate::core::clock::Who;
use crate::core::distribution::Token;
use crate::measure::rows::{
    BeamRow, FailureRow, GenerationRow, PositionRow, RoundRow, TextRow, TraceRow,
};
use crate::method::beam::{BeamObserver, BeamSearch, BeamSettings, BeamStep, BeamTotals, drafting};
use crate::method::decode::{
    Generation, Method, Sequence, StopReason, StopRules, Totals, UserStop, generate_together,
    prefill, room_for,
};
use crate::method::draft::{Texts, Tools};
use crate::model::{LanguageModel, Prefilled, hex};

/// A finished generation.
#[derive(Debug)]
pub(super) struct FinishedGeneration {
    pub(super) row: GenerationRow,
    pub(super) text: TextRow,
    pub(super) rounds: Vec<RoundRow>,
    pub(super) positions: Vec<PositionRow>,
    pub(super) trace: Option<TraceRow>,
}

/// The models of a text's prompt: all generations of a block with it share one prefill of each.
#[derive(Debug)]
pub(super) struct TextModels<'a> {
    target: Prefilled<'a>,
    draft: Option<Prefilled<'a>>,
    /// The target in the place of a draft model, as the oracle uses it.
    drafting_target: Prefilled<'a>,
}

impl<'a> TextModels<'a> {
    /// The models of a run, for the prompts of a block.
    pub(super) fn of(setup: &Setup<'a>, block: &Block<'a>) -> Vec<Self> {
        block.texts.iter().map(|text| Self::new(setup, text)).collect()
    }

    fn new(setup: &Setup<'a>, text: &BlockText<'a>) -> Self {
        let head = text.tokens.split_last().map_or(&[][..], |(_, head)| head);
        let expected = room_for(text.tokens.len(), setup.plan.max_tokens);
        let prefilled =
            |model, who| Prefilled::new(model, who, head, setup.clock).expecting(expected);
        let draft = |model| Prefilled::draft(model, head, setup.clock).expecting(expected);
        Self {
            target: prefilled(setup.target, Who::Target).keeping(setup.draft),
            draft: setup.draft.map(draft),
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

/// Begins a generation of a prompt. If the run is interrupted, the generation ends with its
/// current round.
pub(super) fn begin<'a>(
    setup: &'a Setup<'_>,
    target: &dyn LanguageModel,
    method: Method<'a>,
    text: &BlockText<'_>,
) -> Result<Generation<'a>> {
    let interrupted: UserStop<'_> = Box::new(|_, _| setup.interrupted.load(Ordering::Relaxed));
    let stop = StopRules { user: Some(interrupted), ..stop_rules(setup, target) };
    Ok(Generation::new(target, method, text.tokens, stop, Some(setup.codec))?)
}

/// Where the texts of a run end.
fn stop_rules<'a>(setup: &Setup<'_>, target: &dyn LanguageModel) -> StopRules<'a> {
    let mut stop = StopRules::max_tokens(setup.plan.max_tokens);
    stop.tokens.clone_from(&setup.plan.stop_token_ids);
    if !setup.plan.ignore_eos {
        stop.eos = target.info().eos.clone();
    }
    stop
}

/// Runs the generations of a cell in a block. This is the only function that is ever timed, for
/// baseline, cells and warm-up alike.
pub(super) fn generations(
    setup: &Setup<'_>,
    models: &[TextModels<'_>],
    cell: &Cell,
    block: &Block<'_>,
) -> Vec<Result<FinishedGeneration>> {
    let charged = models.iter().map(TextModels::charged).collect::<Vec<_>>();
    let made = match cell.beam {
        Some(settings) => {
            let each = models.iter().zip(&block.texts);
            each.map(|(models, text)| searched(setup, models, cell, settings, text)).collect()
        }
        None => drawn(setup, models, cell, block),
    };
    let each = models.iter().zip(charged).zip(made.into_iter().zip(&block.texts));
    let each = each.map(|((models, charged), (made, text))| {
        made.map(|made| finished(setup, cell, text, made, models.charged() - charged))
    });
    each.collect()
}

fn finished(
    setup: &Setup<'_>,
    cell: &Cell,
    asked: &BlockText<'_>,
    made: Completion,
    shared_prefill: Duration,
) -> FinishedGeneration {
    let Completion { tokens, text, stop_reason, totals, beam, rounds, positions, trace } = made;
    let seconds = totals.share.as_secs_f64();
    let marks = setup.plan.thinking.each_ref().map(String::as_str);
    FinishedGeneration {
        row: GenerationRow {
            cell: cell.id.clone(),
            prompt: asked.prompt.id.clone(),
            category: asked.prompt.category.clone(),
            repeat: asked.repeat,
            seed: setup.plan.seed,
            prompt_tokens: asked.tokens.len(),
            new_tokens: tokens.len(),
            stop_reason: stop_reason.map_or("", StopReason::name).to_owned(),
            target_forwards: totals.target_forwards,
            draft_forwards: totals.draft_forwards,
            prefill_us: micros(shared_prefill + totals.prefill),
            decode_us: micros(totals.share),
            tokens_per_second: if seconds > 0.0 { tokens.len() as f64 / seconds } else { 0.0 },
            first_divergence: None,
            text_sha256: hex(&Sha256::digest(&text)),
            superseded: false,
        },
        text: TextRow {
            cell: cell.id.clone(),
            prompt: asked.prompt.id.clone(),
            repeat: asked.repeat,
            thinking: thinking(setup.codec, marks, asked.tokens, &tokens),
            tokens,
            text,
            beam,
        },
        rounds,
        positions,
        trace,
    }
}

/// What a generation made, and what it cost.
struct Completion {
    tokens: Vec<Token>,
    text: String,
    stop_reason: Option<StopReason>,
    totals: Totals,
    beam: Option<BeamRow>,
    rounds: Vec<RoundRow>,
    positions: Vec<PositionRow>,
    trace: Option<TraceRow>,
}

/// Draws the texts of a block together, token by token.
fn drawn(
    setup: &Setup<'_>,
    models: &[TextModels<'_>],
    cell: &Cell,
    block: &Block<'_>,
) -> Vec<Result<Completion>> {
    let begun = models.iter().zip(&block.texts).map(|(models, text)| {
        let mut drawing = Drawing::begin(setup, models, cell, text)?;
        drawing.totals = prefill(&mut drawing.generation, &models.target, setup.clock)?;
        Ok(drawing)
    });
    let mut texts = begun.collect::<Vec<Result<_>>>();
    let drawn = texts.iter_mut().filter_map(|text| Some(text.as_mut().ok()?.sequence()));
    let mut drawn = drawn.collect::<Vec<_>>();
    generate_together(&mut drawn, setup.target, setup.clock);
    let mut ends = drawn.into_iter().map(|sequence| sequence.end).collect::<Vec<_>>().into_iter();
    let made = texts.into_iter().zip(&block.texts).map(|(drawing, text)| {
        let drawing = drawing?;
        ends.next().flatten().transpose()?;
        Ok(drawing.finish(setup, cell, text))
    });
    made.collect()
}

/// A text that is being drawn.
struct Drawing<'a> {
    generation: Generation<'a>,
    chance: Seeded,
    recorder: Recorder<'a>,
    totals: Totals,
}

impl<'a> Drawing<'a> {
    fn begin(
        setup: &'a Setup<'_>,
        models: &'a TextModels<'_>,
        cell: &'a Cell,
        text: &BlockText<'a>,
    ) -> Result<Self> {
        let plan = setup.plan;
        let method = cell.method.build_with(models.tools(setup.texts))?;
        let request = text.request(plan.seed);
        let tracer = records(setup, text).then(|| Tracer::new(cell, request));
        Ok(Self {
            generation: begin(setup, &models.target, method, text)?,
            chance: Seeded::new(request),
            recorder: Recorder::new(cell, &text.prompt.id, text.repeat, plan.trace, tracer)?,
            totals: Totals::default(),
        })
    }

    fn sequence(&mut self) -> Sequence<'_, 'a> {
        let Self { generation, chance, recorder, totals } = self;
        Sequence::new(generation, chance, recorder, totals)
    }

    fn finish(self, setup: &Setup<'_>, cell: &Cell, text: &BlockText<'_>) -> Completion {
        let Self { generation, recorder, totals, .. } = self;
        let tokens = generation.new_tokens().to_vec();
        let row = |tracer: Tracer| tracer.row(setup.codec, cell, text, &tokens);
        Completion {
            trace: recorder.tracer.map(row),
            tokens,
            text: generation.text().to_owned(),
            stop_reason: generation.stopped(),
            totals,
            beam: None,
            rounds: recorder.rounds,
            positions: recorder.positions,
        }
    }
}

/// Finds the best text of a beam search. It has no rounds.
fn searched(
    setup: &Setup<'_>,
    models: &TextModels<'_>,
    cell: &Cell,
    settings: BeamSettings,
    text: &BlockText<'_>,
) -> Result<Completion> {
    let (plan, target) = (setup.plan, &models.target);
    let method = drafting(&cell.method).build_with(models.tools(setup.texts))?;
    let (prompt, codec) = (text.tokens, Some(setup.codec));
    let search = BeamSearch { target, settings, prompt, stop: stop_rules(setup, target), codec };
    let request = text.request(plan.seed);
    let mut chance = Seeded::new(request);
    let mut until = UntilInterrupted(setup.interrupted);
    let found = search.run(method, (&mut chance, setup.clock), &mut until)?;
    let best = found.hypotheses.into_iter().next().context("the search has found no text")?;
    let BeamTotals { steps, rows, target_forwards, draft_forwards, prefill, decode } = found.totals;
    Ok(Completion {
        text: search.text(&best.tokens, setup.codec)?,
        tokens: best.tokens,
        stop_reason: Some(best.reason),
        totals: Totals {
            target_forwards,
            draft_forwards,
            prefill,
            decode,
            share: decode,
            ..Totals::default()
        },
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

/// The failure of a cell's text; `what` says what failed and comes before the
/// error.
pub(super) fn failure(
    cell: &Cell,
    text: &BlockText<'_>,
    error: &anyhow::Error,
    what: &str,
) -> FailureRow {
    FailureRow {
        cell: cell.id.clone(),
        prompt: text.prompt.id.clone(),
        repeat: text.repeat,
        reason: format!("{what}{error:#}").replace(char::is_control, " "),
        superseded: false,
    }
}
