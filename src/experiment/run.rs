//! The sweep: blocks of one prompt, repeat and sampling setting, in each of
//! which the plain baseline and all cells take turns.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::calibrate::calibrate;
use super::cell::{Cell, Plan};
use super::compare;
use super::folder::{BlockRows, GenerationKey, ResultsFolder};
use super::live::Live;
use super::machine::QueueDelay;
use super::manifest::{Manifest, Status, utc_now};
use super::plan::describe;
use super::progress::Progress;
use super::prompts::Prompt;
use super::recorder::{Recorder, micros};
use super::records::{FailureRow, GenerationRow, RoundRow, TextRow};
use crate::chance::{Request, Seeded};
use crate::clock::Clock;
use crate::decode::{Generation, Method, StopReason, StopRules, UserStop, generate};
use crate::dist::Token;
use crate::draft::{Texts, Tools};
use crate::model::{Codec, LanguageModel, hex};

/// What a run works with.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The target.
    pub target: &'a dyn LanguageModel,
    /// The draft model, if there is one.
    pub draft: Option<&'a dyn LanguageModel>,
    /// Text to tokens and back.
    pub codec: &'a dyn Codec,
    /// Texts that drafters learn from.
    pub texts: Texts<'a>,
    /// The prompts, in the plan's order.
    pub prompts: &'a [Prompt],
    /// What times are taken from: [`Plan::clock`], unless time is scripted.
    pub clock: &'a dyn Clock,
    /// Set from outside to end the run in an orderly way.
    pub interrupted: &'a AtomicBool,
}

/// Which folder a run writes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resume {
    /// A new one.
    No,
    /// The newest unfinished one of the same plan.
    Newest,
    /// This one.
    Folder(PathBuf),
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// The results folder.
    pub folder: PathBuf,
    /// Whether it was told to stop before it was done.
    pub interrupted: bool,
}

/// A prompt, a repeat and a sampling setting: the unit of work.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) prompt: &'a Prompt,
    pub(super) tokens: &'a [Token],
    pub(super) repeat: u32,
    pub(super) cells: Vec<&'a Cell>,
}

impl Block<'_> {
    /// What its random numbers belong to.
    pub(super) fn request(&self, seed: u64) -> Request<'_> {
        Request { seed, prompt: &self.prompt.id, repeat: self.repeat }
    }
}

/// A finished generation.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) row: GenerationRow,
    text: TextRow,
    pub(super) rounds: Vec<RoundRow>,
    positions: Vec<super::records::PositionRow>,
}

/// Runs the plan.
///
/// # Errors
/// If a file cannot be written or the calibration fails. A generation that
/// fails is recorded with its reason and does not end the run.
pub fn run(bench: &Bench<'_>, out: &std::path::Path, resume: &Resume) -> Result<Ended> {
    let prompts = encode(bench)?;
    let blocks = blocks(bench, &prompts);
    let (folder, mut manifest, done) = match resume {
        Resume::No => {
            let calibration = calibrate(bench, &prompts)?;
            let manifest = Manifest::begin(bench.plan, calibration, blocks.len());
            let folder = ResultsFolder::create(out, bench.plan, &manifest)?;
            (folder, manifest, HashSet::new())
        }
        Resume::Newest | Resume::Folder(_) => reopen(bench, out, resume, &blocks, &prompts)?,
    };
    eprintln!("results: {}", folder.path().display());
    let total = blocks.iter().map(|b| b.cells.len()).sum();
    let mut progress = Progress::new(total, done.len());
    let delay = QueueDelay::start();
    let mut live = BTreeMap::new();
    for block in &blocks {
        if block.cells.iter().all(|cell| done.contains(&key(cell, block))) {
            continue;
        }
        let rows = run_block(bench, block, &mut progress, &mut live);
        folder.append(&rows)?;
        if bench.interrupted.load(Ordering::Relaxed) {
            break;
        }
        manifest.blocks.0 += 1;
    }
    progress.finish();
    let interrupted = manifest.blocks.0 < manifest.blocks.1;
    manifest.status = if interrupted { Status::Interrupted } else { Status::Finished };
    manifest.run_queue_delay_share = manifest.run_queue_delay_share.max(delay.share());
    manifest.finished = Some(utc_now());
    manifest.write(folder.path())?;
    Ok(Ended { folder: folder.path().to_owned(), interrupted })
}

/// Opens the folder to continue and warms up again.
fn reopen(
    bench: &Bench<'_>,
    out: &std::path::Path,
    resume: &Resume,
    blocks: &[Block<'_>],
    prompts: &[Vec<Token>],
) -> Result<(ResultsFolder, Manifest, HashSet<GenerationKey>)> {
    let folder = match resume {
        Resume::Folder(path) => ResultsFolder::open(path, bench.plan)?,
        _ => ResultsFolder::newest_unfinished(out, bench.plan)?,
    };
    let mut manifest = Manifest::read(folder.path())?.resume(folder.path())?;
    let block_of = |key: &GenerationKey| {
        blocks.iter().find(|block| {
            block.prompt.id == key.1
                && block.repeat == key.2
                && block.cells.iter().any(|cell| cell.id == key.0)
        })
    };
    let done = folder.repair(|generation, listed| {
        block_of(generation)
            .is_some_and(|block| block.cells.iter().all(|cell| listed.contains(&key(cell, block))))
    })?;
    calibrate(bench, prompts)?;
    manifest.blocks.0 = blocks
        .iter()
        .filter(|block| block.cells.iter().all(|cell| done.contains(&key(cell, block))))
        .count();
    manifest.write(folder.path())?;
    Ok((folder, manifest, done))
}

fn key(cell: &Cell, block: &Block<'_>) -> GenerationKey {
    (cell.id.clone(), block.prompt.id.clone(), block.repeat)
}

fn encode(bench: &Bench<'_>) -> Result<Vec<Vec<Token>>> {
    let longest = bench.target.info().context_length.saturating_sub(bench.plan.max_tokens);
    bench
        .prompts
        .iter()
        .map(|prompt| {
            let tokens = bench
                .codec
                .encode(&prompt.text)
                .with_context(|| format!("prompt {}", prompt.id))?;
            if tokens.is_empty() {
                bail!("prompt {} is empty: give at least one token", prompt.id);
            }
            if tokens.len() > longest {
                bail!(
                    "prompt {} has {} tokens, but the target's context leaves room for {longest} \
                     before max_tokens = {}",
                    prompt.id,
                    tokens.len(),
                    bench.plan.max_tokens
                );
            }
            Ok(tokens)
        })
        .collect()
}

/// All blocks in order. Within a block the cells take turns in an order that
/// is rotated from block to block, so that none is always first.
fn blocks<'a>(bench: &Bench<'a>, tokens: &'a [Vec<Token>]) -> Vec<Block<'a>> {
    let settings = bench.plan.settings();
    let mut blocks = Vec::new();
    for repeat in 0..bench.plan.repeats {
        for (prompt, tokens) in bench.prompts.iter().zip(tokens) {
            for cells in &settings {
                let mut cells = cells.clone();
                let turn = blocks.len() / settings.len() % cells.len();
                cells.rotate_left(turn);
                blocks.push(Block { prompt, tokens, repeat, cells });
            }
        }
    }
    blocks
}

/// Runs all cells of a block in its order.
fn run_block(
    bench: &Bench<'_>,
    block: &Block<'_>,
    progress: &mut Progress,
    live: &mut BTreeMap<String, Live>,
) -> BlockRows {
    let mut rows = BlockRows::default();
    for cell in &block.cells {
        match one(bench, cell, block) {
            // The block will be run again whole: there is nothing to compare.
            _ if bench.interrupted.load(Ordering::Relaxed) => return rows,
            Ok(done) => {
                let live = live.entry(cell.id.clone()).or_default();
                live.add(&done);
                progress.advance(&live.line(cell));
                rows.generations.push(done.row);
                rows.texts.push(done.text);
                rows.rounds.extend(done.rounds);
                rows.positions.extend(done.positions);
            }
            Err(error) => {
                let failed = failure(cell, block, &error, "");
                let (cell, prompt) = (describe(cell), &block.prompt.id);
                progress.say(&format!("failed: {cell}, prompt {prompt}: {}", failed.reason));
                progress.advance("");
                rows.failures.push(failed);
            }
        }
    }
    compare::greedy(bench.target, block, &mut rows);
    compare::paths(bench, block, &mut rows);
    rows
}

/// A failure of a cell in this block: what failed, and why.
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
        reason: format!("{what}{error:#}").replace('\n', " "),
        superseded: false,
    }
}

/// A fresh generation of a block's prompt, which ends early if `user` says so.
pub(super) fn begin<'a>(
    bench: &'a Bench<'_>,
    method: Method<'a>,
    block: &Block<'_>,
    user: Option<UserStop<'a>>,
) -> Result<Generation<'a>> {
    let mut stop = StopRules { user, ..StopRules::max_tokens(bench.plan.max_tokens) };
    if !bench.plan.ignore_eos {
        stop.eos = bench.target.info().eos.clone();
    }
    Ok(Generation::new(bench.target, method, block.tokens, stop, Some(bench.codec))?)
}

/// One generation: the only function that is ever timed, for baseline, cells
/// and warm-up alike.
pub(super) fn one(bench: &Bench<'_>, cell: &Cell, block: &Block<'_>) -> Result<Done> {
    let plan = bench.plan;
    let (draft, target) = (bench.draft, Some(bench.target));
    let tools = Tools { draft, target, texts: Some(&bench.texts) };
    let method = plan.method(cell).build_with(tools)?;
    let interrupted: UserStop<'_> = Box::new(|_, _| bench.interrupted.load(Ordering::Relaxed));
    let mut generation = begin(bench, method, block, Some(interrupted))?;
    let mut chance = Seeded::new(block.request(plan.seed));
    let mut recorder = Recorder::new(cell, &block.prompt.id, block.repeat, plan.trace)?;
    let totals = generate(&mut generation, bench.target, &mut chance, bench.clock, &mut recorder)?;
    let new_tokens = generation.new_tokens().len();
    let seconds = totals.decode.as_secs_f64();
    let text = generation.text().to_owned();
    Ok(Done {
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
