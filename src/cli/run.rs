//! `specdec run` and `specdec plan`: run an experiment, or show what it would run.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::interrupt::{Interrupted, Interrupts, RunStage};
use super::models::start_threads;
use super::output;
use crate::draft::Texts;
use crate::experiment::{
    ClockKind, Experiment, Frozen, Material, PlannedModel, Resume, Setup, Spec, describe, freeze,
    pass_time,
};
use crate::input::read_text;
use crate::model::{Catalog, LanguageModel, Role};
use crate::pair::Pair;
use crate::prompt::{self, Question};
use crate::registry::class_with_word;
use crate::shown::count;
use crate::{report, terminal};

/// Prompts per category and maximum tokens per prompt with `--quick`.
const QUICK: (usize, usize) = (1, 16);

/// The maximum number of prompts that `run` names in a sentence about how they were chosen.
const LISTED: usize = 12;

/// Options of `specdec run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec run experiments/00-smoke
  specdec run experiments/01-draft-length --quick
  specdec run experiments/01-draft-length --set sweep.temperature=0 --set max_tokens=32
  specdec run experiments/01-draft-length --resume
  specdec run experiments/01-draft-length --resume=results/01-draft-length/2026-01-31-some-cpu-2c

The results folder results/<experiment>/<UTC date>-<machine>/ contains plan.toml, manifest.json, the
raw rows, and the summary, report and figures made from them. The command prints the path of the
report to standard output, and progress and a table of results to standard error. Ctrl-C stops the
run after the current round, a second Ctrl-C at once; finished blocks are kept.")]
pub(super) struct RunArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Folder in which results folders are created
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
    /// Continue the newest unfinished run of the same plan, or the one in FOLDER
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, require_equals = true)]
    resume: Option<Option<PathBuf>>,
}

/// Options of `specdec plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec plan experiments/01-draft-length
  specdec plan experiments/01-draft-length --set sweep.drafter=prompt_lookup

The id of a cell is a hash of everything that may change its tokens (models, engine, dtype, device,
sampling, drafter, verifier, length), but not of threads, clock, trace or output.
If plan accepts an experiment, so does run: both tokenise every prompt. docs/experiment-keys.md
describes the keys.")]
pub(super) struct PlanArgs {
    #[command(flatten)]
    source: SourceArgs,
}

/// Options that `run` and `plan` share.
#[derive(Debug, Args)]
struct SourceArgs {
    /// A folder with an experiment.toml, or a TOML file
    #[arg(value_name = "EXPERIMENT")]
    experiment: PathBuf,
    /// Override a top-level key, or an axis as sweep.AXIS (a scalar replaces a list); repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Use one prompt per category, one repeat and at most 16 tokens: a check, not a measurement
    #[arg(long)]
    quick: bool,
    /// Clock that times the rounds: real, or virtual with a fixed cost per pass
    #[arg(long, value_name = "CLOCK", value_parser = ["real", "virtual"])]
    clock: Option<String>,
    /// Also write positions.csv, with one row per drafted token
    #[arg(long)]
    trace: bool,
}

/// An experiment with everything that must be loaded before its plan can be frozen.
struct Ready {
    experiment: Experiment,
    prompts: Vec<Question>,
    pair: Pair,
    threads: usize,
}

impl Ready {
    /// Freezes the plan; drafters that need texts read them from `texts`.
    fn freeze(&self, texts: &Texts<'_>) -> Result<Frozen> {
        let material = Material {
            name: &self.experiment.name,
            target: self.pair.target.model.info(),
            draft: self.pair.draft_model().map(LanguageModel::info),
            codec: &*self.pair.target.codec,
            prompts: &self.prompts,
            answers: Some(&*self.pair.target.model),
            texts,
        };
        let place = || self.experiment.file.display().to_string();
        freeze(&self.experiment.spec, &material).with_context(place)
    }
}

/// Runs `specdec plan`.
pub(super) fn plan(args: &PlanArgs) -> Result<()> {
    let ready = prepare(&args.source)?;
    let frozen = ready.freeze(&Texts::new(&*ready.pair.target.codec, read_text))?;
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
    writeln!(text, "plan hash   {}\n", plan.hash)?;
    writeln!(text, "{:>4}  {:12}  {:15}  cell", "no.", "id", "class")?;
    for (number, cell) in plan.cells.iter().enumerate() {
        let (number, class) = (number + 1, class_with_word(&cell.class));
        writeln!(text, "{number:>4}  {:12}  {class:15}  {}", cell.id, describe(cell))?;
    }
    writeln!(text, "\n{}", estimate(&ready, &frozen)?)?;
    output::write(&text)
}

/// A model by its name, the beginning of its hash and, from a repository, of its commit.
fn pinned(model: &PlannedModel) -> String {
    let commit = model.revision.iter().map(|commit| format!(", commit {commit:.12}"));
    let tokens = if model.vocabulary.is_same() { "" } else { ", tokens in common with the target" };
    format!("{} {}{}{tokens}", model.name, &model.sha256[..12], commit.collect::<String>())
}

/// Runs `specdec run`: measures, then writes the report.
pub(super) fn run(args: &RunArgs) -> Result<()> {
    let interrupts = Interrupts::listen()?;
    let ready = prepare(&args.source)?;
    let texts = Texts::new(&*ready.pair.target.codec, read_text);
    let Frozen { plan, prompts, tokens } = ready.freeze(&texts)?;
    plan.choice.sentences(LISTED).iter().for_each(terminal::say);
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
        interrupted: interrupts.wanted(),
    };
    let resume = match &args.resume {
        None => Resume::No,
        Some(None) => Resume::Newest,
        Some(Some(path)) => Resume::Folder(path.clone()),
    };
    interrupts.enter(RunStage::Measuring);
    let ended = crate::experiment::run(&setup, &args.out, &resume);
    let ended = ended.map_err(|error| match interrupts.wanted().load(Ordering::Relaxed) {
        true => Interrupted(format!("{error:#}")).into(),
        false => error,
    })?;
    if ended.interrupted {
        let sentence = "interrupted: all finished blocks are kept; continue with --resume";
        return Err(Interrupted(sentence.to_owned()).into());
    }
    interrupts.enter(RunStage::Reporting);
    let brief = report::report(&ended.folder)?;
    crate::experiment::finish(&ended.folder)?;
    terminal::say(brief.text(terminal::width().min(terminal::COLUMNS)).trim_end());
    output::line(ended.folder.join("report.md").display())
}

fn prepare(source: &SourceArgs) -> Result<Ready> {
    let path = &source.experiment;
    if path.join("plan.toml").is_file() {
        bail!(
            "{} is a results folder: name the experiment it belongs to, and add --resume={0} to \
             continue it",
            path.display()
        );
    }
    let mut experiment = Experiment::read(path, &source.set)?;
    apply_flags(&mut experiment.spec, source);
    let spec = &experiment.spec;
    let place = || experiment.file.display().to_string();
    let threads = start_threads(spec.threads)?;
    let folder = experiment.file.parent().unwrap_or(Path::new("."));
    let catalog = Catalog::near(folder);
    let prompts = read_prompts(&catalog, spec).with_context(place)?;
    let source = |name: &str, role| Ok(catalog.model(name)?.with(spec.settings(role)));
    let target = source(&spec.target, Role::Target).and_then(Pair::load).context("target")?;
    let pair = match &spec.draft {
        Some(name) => {
            let draft = source(name, Role::Draft);
            draft.and_then(|draft| target.with_draft_of(spec.vocabulary, draft)).context("draft")?
        }
        None => target,
    };
    Ok(Ready { prompts, pair, threads, experiment })
}

fn apply_flags(spec: &mut Spec, source: &SourceArgs) {
    if source.quick {
        spec.max_tokens = spec.max_tokens.min(QUICK.1);
        spec.repeats = 1;
        spec.prompts_per_category = Some(QUICK.0);
    }
    spec.trace |= source.trace;
    match source.clock.as_deref() {
        Some("virtual") => spec.clock = ClockKind::Virtual,
        Some(_) => spec.clock = ClockKind::Real,
        None => {}
    }
}

fn read_prompts(catalog: &Catalog, spec: &Spec) -> Result<Vec<Question>> {
    let mut all = Vec::new();
    for name in &spec.prompts {
        all.extend(prompt::read(&catalog.prompts(name)?)?);
    }
    if all.is_empty() {
        bail!("\"prompts\" is empty: name at least one prompt set");
    }
    Ok(all)
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
