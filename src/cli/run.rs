//! `specdec run` and `specdec plan`: run an experiment, or show what it would run.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use super::interrupt::{Interrupted, Interrupts, RunStage};
use super::options::word;
use super::output;
use super::source::{OverrideArgs, Ready, prepare};
use crate::core::registry::class_with_word;
use crate::io::shown::{self, count};
use crate::io::terminal;
use crate::model::Codec;
use crate::run::cluster::shard_of_task;
use crate::run::experiment::{
    ClockKind, Ended, Frozen, PACK_ABOVE, PlannedModel, Resume, Setup, Shard, describe, pass_time,
    run_shard,
};
use crate::run::report;

/// The maximum number of prompts that `run` names in a sentence about how they were chosen.
const LISTED: usize = 12;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec run experiments/00-smoke
  specdec run experiments/01-draft-length --quick
  specdec run experiments/01-draft-length --set sweep.temperature=0 --set max_tokens=32
  specdec run experiments/01-draft-length --threads 4
  specdec run experiments/01-draft-length --resume
  specdec run experiments/01-draft-length --resume=results/01-draft-length/2026-01-31-some-cpu-2c
  specdec run experiments/01-draft-length --shard 1/4

The results folder results/<experiment>/<UTC date>-<machine>/ contains plan.toml, manifest.json, the
raw rows, and the summary, report and figures made from them. The command prints the path of the
report to standard output, and progress and a table of results to standard error. Ctrl-C stops the
run after the current round, a second Ctrl-C at once; finished blocks are kept.

With --shard I/N the run is one of N parts, which are counted from 1, and its folder lies in
results/<experiment>/shards-<plan>/ next to those of the other parts. Blocks that any of these has
are not run again, even if N has changed, and a part that was stopped continues where it ended: no
--resume is needed. Such a run writes rows and no report, and prints the path of its folder;
`specdec merge` makes one folder of all parts, and `specdec report` the report. Without --shard, a
run inside a job of Slurm, Kubernetes or HyperQueue is a whole run.")]
pub(super) struct RunArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Folder in which results folders are created
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
    /// Continue the newest unfinished run of the same plan, or the one in FOLDER
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, require_equals = true)]
    resume: Option<Option<PathBuf>>,
    /// Run part I of N of the blocks, from 1/N to N/N; `auto`: the part of this task of a Slurm
    /// array, or of an indexed job of Kubernetes or HyperQueue with SPECDEC_SHARDS tasks
    #[arg(long, value_name = "I/N", conflicts_with = "resume")]
    shard: Option<String>,
    #[command(flatten)]
    packing: PackingArgs,
}

/// Options of commands that write the rows of a run.
#[derive(Debug, Args)]
pub(super) struct PackingArgs {
    /// Move the rows of rounds.csv and positions.csv to a compressed Parquet file, which the
    /// report reads as well, whenever the file is longer than BYTES at the end of a block
    #[arg(long, value_name = "BYTES", default_value_t = PACK_ABOVE)]
    pub(super) pack_above: u64,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec plan experiments/01-draft-length
  specdec plan experiments/01-draft-length --set sweep.drafter=prompt_lookup
  specdec plan experiments/01-draft-length --show 1

The id of a cell is a hash of everything that may change its tokens (models, engine, dtype, device,
sampling, drafter, verifier, length), but not of threads, clock, trace or output.
If plan accepts an experiment, so does run: both tokenise every prompt. docs/experiment-keys.md
describes the keys.")]
pub(super) struct PlanArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Also print the first N prompts as the model sees them: the text of their tokens, with what
    /// the chat template and the tokenizer add
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    show: usize,
}

/// Options that `run`, `plan` and `submit` share.
#[derive(Debug, Args)]
pub(super) struct SourceArgs {
    /// A folder with an experiment.toml, or a TOML file
    #[arg(value_name = "EXPERIMENT")]
    experiment: PathBuf,
    #[command(flatten)]
    overrides: OverrideArgs,
    /// Clock that times the rounds: real, or virtual with a fixed cost per pass
    #[arg(long, value_name = "CLOCK", value_parser = ["real", "virtual"])]
    clock: Option<String>,
    /// Worker threads, instead of those of the experiment; short for --set threads=N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Also write positions.csv, with one row per drafted token
    #[arg(long)]
    trace: bool,
}

impl SourceArgs {
    /// The same options as words of a command.
    ///
    /// # Errors
    /// If the path of the experiment is not UTF-8.
    pub(super) fn words(&self) -> Result<Vec<String>> {
        let mut words = vec![word(&self.experiment)?];
        words.extend(self.overrides.words());
        words.extend(self.clock.iter().flat_map(|clock| ["--clock".to_owned(), clock.clone()]));
        words.extend(self.threads.map(|threads| format!("--threads={threads}")));
        words.extend(self.trace.then(|| "--trace".to_owned()));
        Ok(words)
    }

    /// Reads the experiment and loads its models.
    pub(super) fn prepare(&self) -> Result<Ready> {
        let mut ready = match self.threads {
            Some(threads) => prepare(&self.experiment, &self.overrides.and("threads", threads))?,
            None => prepare(&self.experiment, &self.overrides)?,
        };
        let spec = &mut ready.experiment.spec;
        spec.trace |= self.trace;
        match self.clock.as_deref() {
            Some("virtual") => spec.clock = ClockKind::Virtual,
            Some(_) => spec.clock = ClockKind::Real,
            None => {}
        }
        Ok(ready)
    }
}

pub(super) fn plan(args: &PlanArgs) -> Result<()> {
    let ready = args.source.prepare()?;
    let frozen = ready.freeze(&ready.texts())?;
    let plan = &frozen.plan;
    let mut text = String::new();
    writeln!(text, "experiment  {} ({})", plan.experiment, ready.experiment.file.display())?;
    writeln!(text, "question    {}", plan.question)?;
    writeln!(text, "target      {}", pinned(&plan.target))?;
    if let Some(draft) = &plan.draft {
        writeln!(text, "draft       {}", pinned(draft))?;
    }
    let of = if plan.choice.is_all() { String::new() } else { format!(" of {}", plan.choice.of) };
    writeln!(
        text,
        "prompts     {}{of}, {}, {} tokens each, seed {}",
        plan.prompts.len(),
        count(plan.repeats as usize, "repeat"),
        plan.max_tokens,
        plan.seed
    )?;
    for sentence in plan.choice.sentences(usize::MAX) {
        writeln!(text, "            {sentence}")?;
    }
    writeln!(text, "threads     {}", ready.threads)?;
    writeln!(text, "plan hash   {}\n", plan.hash)?;
    writeln!(text, "{:>4}  {:12}  {:15}  cell", "no.", "id", "class")?;
    for (number, cell) in plan.cells.iter().enumerate() {
        let (number, class) = (number + 1, class_with_word(&cell.class));
        writeln!(text, "{number:>4}  {:12}  {class:15}  {}", cell.id, describe(cell))?;
    }
    writeln!(text, "\n{}", estimate(&ready, &frozen)?)?;
    text += &seen(&frozen, &*ready.pair.target.codec, args.show)?;
    output::show(&text)
}

/// The first `most` prompts as the model sees them, each line of them after a bar; with every set of
/// arguments of the chat template.
fn seen(
    Frozen { plan, prompts, tokens }: &Frozen,
    codec: &dyn Codec,
    most: usize,
) -> Result<String> {
    let mut text = String::new();
    for (arguments, tokens) in plan.arguments().into_iter().zip(tokens.chunks(prompts.len())) {
        let with = if arguments.is_empty() { String::new() } else { format!(" with {arguments}") };
        for (prompt, tokens) in prompts.iter().zip(tokens).take(most) {
            let named = format!("prompt {} ({}){with}", prompt.id, prompt.category);
            writeln!(text, "\n{}, {}:", shown::line(&named), count(tokens.len(), "token"))?;
            for line in shown::lines(&codec.decode_all(tokens)?).split('\n') {
                writeln!(text, "| {line}")?;
            }
        }
    }
    Ok(text)
}

/// A model by its name, the beginning of its hash and, from a repository, of its commit.
fn pinned(model: &PlannedModel) -> String {
    let commit = model.revision.iter().map(|commit| format!(", commit {commit:.12}"));
    let tokens = if model.vocabulary.is_same() { "" } else { ", tokens in common with the target" };
    format!("{} {}{}{tokens}", model.name, &model.sha256[..12], commit.collect::<String>())
}

impl RunArgs {
    /// A new run of an experiment.
    pub(super) fn of(experiment: PathBuf, out: PathBuf) -> Self {
        let (overrides, clock, threads, trace) = (OverrideArgs::default(), None, None, false);
        let source = SourceArgs { experiment, overrides, clock, threads, trace };
        let packing = PackingArgs { pack_above: PACK_ABOVE };
        Self { source, out, resume: None, shard: None, packing }
    }

    /// The part of the run that is asked for; `None` for all of it.
    fn part(&self) -> Result<Option<Shard>> {
        let Some(shard) = &self.shard else { return Ok(None) };
        let shard = match shard.as_str() {
            AUTO => shard_of_task(|name| std::env::var(name).ok())?,
            named => named.parse::<Shard>().context("--shard")?,
        };
        Ok(Some(shard))
    }
}

/// The value of `--shard` that reads the environment.
const AUTO: &str = "auto";

pub(super) fn run(args: &RunArgs) -> Result<()> {
    match args.part()? {
        None => output::line(measured(args)?.join("report.md").display()),
        Some(shard) => part(args, shard)?.map_or(Ok(()), |folder| output::line(folder.display())),
    }
}

/// Measures, writes the report, and returns the results folder.
pub(super) fn measured(args: &RunArgs) -> Result<PathBuf> {
    let resume = match &args.resume {
        None => Resume::No,
        Some(None) => Resume::Newest,
        Some(Some(path)) => Resume::Folder(path.clone()),
    };
    let interrupts = Interrupts::listen()?;
    let folder = prepared(args, &interrupts, |setup| {
        Ok(Some(crate::run::experiment::run(setup, &args.out, &resume)?))
    })?;
    let folder = folder.context("nothing was run")?;
    interrupts.enter(RunStage::Reporting);
    let (brief, _) = report::report(&folder)?;
    crate::run::experiment::finish(&folder)?;
    terminal::say(brief.text(terminal::width().min(terminal::COLUMNS)).trim_end());
    Ok(folder)
}

/// Measures a shard, and returns its folder; `None` if nothing was left to do.
fn part(args: &RunArgs, shard: Shard) -> Result<Option<PathBuf>> {
    let interrupts = Interrupts::listen()?;
    let folder = prepared(args, &interrupts, |setup| run_shard(setup, &args.out, shard))?;
    match &folder {
        Some(folder) => crate::run::experiment::finish(folder)?,
        None => terminal::say(format_args!("{shard}: no block is left to run")),
    }
    Ok(folder)
}

/// Loads what the run needs, and returns the folder that `run` wrote to.
fn prepared(
    args: &RunArgs,
    interrupts: &Interrupts,
    run: impl FnOnce(&Setup<'_>) -> Result<Option<Ended>>,
) -> Result<Option<PathBuf>> {
    let ready = args.source.prepare()?;
    let texts = ready.texts();
    let Frozen { plan, prompts, tokens } = ready.freeze(&texts)?;
    for sentence in &plan.choice.sentences(LISTED) {
        terminal::say(sentence);
    }
    let clock = plan.clock();
    let setup = Setup {
        threads: ready.threads,
        plan: &plan,
        target: &*ready.pair.target.model,
        draft: ready.pair.draft_model(),
        codec: &*ready.pair.target.codec,
        texts: &texts,
        prompts: &prompts,
        tokens: &tokens,
        clock: &*clock,
        pack_above: args.packing.pack_above,
        interrupted: interrupts.wanted(),
    };
    interrupts.enter(RunStage::Measuring);
    let ended = run(&setup).map_err(|error| match interrupts.wanted().load(Ordering::Relaxed) {
        true => Interrupted(format!("{error:#}")).into(),
        false => error,
    })?;
    if ended.as_ref().is_some_and(|ended| ended.interrupted) {
        let how = if args.shard.is_some() { "the same command" } else { "--resume" };
        let sentence = format!("interrupted: all finished blocks are kept; continue with {how}");
        return Err(Interrupted(sentence).into());
    }
    Ok(ended.map(|ended| ended.folder))
}

/// Estimates the time and disk space that the plan needs, from a few timed passes.
fn estimate(ready: &Ready, Frozen { plan, tokens: prompts, .. }: &Frozen) -> Result<String> {
    let (generations, tokens) = (plan.generations(), plan.tokens());
    // The shortest, because every prompt needs a prefill.
    let shortest =
        prompts.iter().min_by_key(|prompt| prompt.len()).context("there is no prompt")?;
    let pass = pass_time(&*ready.pair.target.model, shortest)?;
    let seconds = Duration::from_secs_f64(plan.passes() as f64 * pass.as_secs_f64());
    // About 150 bytes per round and 10 per token of text, with at most one round per token; a
    // trace adds a row for each of about three drafted tokens per round.
    let bytes = tokens * 160 * if plan.trace { 4 } else { 1 };
    Ok(format!(
        "estimate    {generations} generations, {tokens} tokens; {} s without drafts ({:.0} \
         target passes/s on this machine); about {:.1} MB on disk",
        seconds.as_secs().max(1),
        1.0 / pass.as_secs_f64(),
        bytes as f64 / 1e6
    ))
}
