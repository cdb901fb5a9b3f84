//! `specdec run` and `specdec plan`: from an experiment to a results folder.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::interrupt::{Interrupted, Interrupts, Stage};
use super::models::start_threads;
use super::output;
use crate::draft::Texts;
use crate::experiment::prompts::{self, Prompt};
use crate::experiment::{
    ClockKind, Experiment, Frozen, Material, Resume, Setup, Spec, describe, freeze, pass_time,
};
use crate::input::read_text;
use crate::model::{Catalog, LanguageModel, Role};
use crate::pair::Pair;
use crate::registry::class_with_word;
use crate::{report, terminal};

/// Prompts per category and tokens per prompt of `--quick`.
const QUICK: (usize, usize) = (1, 16);

/// Prompts that `run` lists where it says what became of them.
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

The results folder is named results/<experiment>/<UTC date>-<machine>/ and holds plan.toml,
manifest.json, the raw rows, and summary, report and figures made from them. Standard output is one
line, the path of the report; progress and a table of results go to standard error. Ctrl-C ends
a run after the round in work, a second one at once; finished blocks are kept.")]
pub(super) struct RunArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Where results folders are made
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

A cell's id is a content hash of what may change its tokens (models, engine, dtype, device,
sampling, drafter, verifier, length), never of threads, clock, trace or output.
What plan accepts, run accepts: both tokenise every prompt. Keys: docs/experiment-keys.md.")]
pub(super) struct PlanArgs {
    #[command(flatten)]
    source: SourceArgs,
}

/// What both commands start from.
#[derive(Debug, Args)]
struct SourceArgs {
    /// A folder with an experiment.toml, or a TOML file
    #[arg(value_name = "EXPERIMENT")]
    experiment: PathBuf,
    /// Override a top-level key, or an axis as sweep.AXIS (a scalar replaces a list); repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// One prompt per category and at most 16 tokens: a look, not a measurement
    #[arg(long)]
    quick: bool,
    /// Time with the wall clock, or with a fixed cost per pass
    #[arg(long, value_name = "CLOCK", value_parser = ["real", "virtual"])]
    clock: Option<String>,
    /// Also write positions.csv, a row per drafted token
    #[arg(long)]
    trace: bool,
}

/// Everything that is loaded before a plan can be frozen.
struct Ready {
    experiment: Experiment,
    prompts: Vec<Prompt>,
    pair: Pair,
    threads: usize,
}

impl Ready {
    /// The plan, whose drafters read `texts`; says what becomes of the prompts.
    fn freeze(&self, texts: &Texts<'_>) -> Result<Frozen> {
        let material = Material {
            name: &self.experiment.name,
            target: self.pair.target.model.info(),
            draft: self.pair.draft_model().map(LanguageModel::info),
            codec: &*self.pair.target.codec,
            prompts: &self.prompts,
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
    writeln!(text, "target      {} {}", plan.target.name, &plan.target.sha256[..12])?;
    if let Some(draft) = &plan.draft {
        writeln!(text, "draft       {} {}", draft.name, &draft.sha256[..12])?;
    }
    let of = if plan.choice.is_all() { String::new() } else { format!(" of {}", plan.choice.of) };
    writeln!(
        text,
        "prompts     {}{of}, {} repeat(s), {} tokens each, seed {}",
        plan.prompts.len(),
        plan.repeats,
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

/// Runs `specdec run`, then reports.
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
    interrupts.enter(Stage::Measuring);
    let ended = crate::experiment::run(&setup, &args.out, &resume);
    let ended = ended.map_err(|error| match interrupts.wanted().load(Ordering::Relaxed) {
        true => Interrupted(format!("{error:#}")).into(),
        false => error,
    })?;
    if ended.interrupted {
        let sentence = "interrupted: all finished blocks are kept; continue with --resume";
        return Err(Interrupted(sentence.to_owned()).into());
    }
    interrupts.enter(Stage::Reporting);
    let brief = report::report(&ended.folder)?;
    crate::experiment::finish(&ended.folder)?;
    terminal::say(brief.text(terminal::width().min(terminal::COLUMNS)).trim_end());
    output::line(ended.folder.join("report.md").display())
}

fn prepare(source: &SourceArgs) -> Result<Ready> {
    let path = &source.experiment;
    if path.join("plan.toml").is_file() {
        bail!(
            "{} is a results folder: name the experiment that it belongs to, and write \
             --resume={0} to continue it",
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
            source(name, Role::Draft).and_then(|draft| target.with_draft(draft)).context("draft")?
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

fn read_prompts(catalog: &Catalog, spec: &Spec) -> Result<Vec<Prompt>> {
    let mut all = Vec::new();
    for name in &spec.prompts {
        all.extend(prompts::read(&catalog.prompts(name)?)?);
    }
    if all.is_empty() {
        bail!("\"prompts\" is empty: name at least one prompt set");
    }
    Ok(all)
}

/// Time and disk that the plan will take, from a few timed passes.
fn estimate(ready: &Ready, Frozen { plan, tokens: prompts, .. }: &Frozen) -> Result<String> {
    let (generations, tokens) = (plan.generations(), plan.tokens());
    let pass = pass_time(&*ready.pair.target.model, &prompts[0])?;
    let seconds = Duration::from_secs_f64(tokens as f64 * pass.as_secs_f64());
    // Some 150 bytes per round and 10 per token of text, with a round per token; a trace
    // adds a row for each of some three drafted tokens.
    let bytes = tokens * 160 * if plan.trace { 4 } else { 1 };
    Ok(format!(
        "estimate    {generations} generations, {tokens} tokens; at plain decoding's pace \
         ({:.0} tokens/s here) {} s; about {:.1} MB on disk",
        1.0 / pass.as_secs_f64(),
        seconds.as_secs().max(1),
        bytes as f64 / 1e6
    ))
}
