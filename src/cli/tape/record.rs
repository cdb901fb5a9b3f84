//! `specdec tape record`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use super::show::contents;
use crate::cli::models::open_pair;
use crate::cli::options::{ModelArgs, count};
use crate::cli::output;
use crate::cli::sampling::SamplingArgs;
use crate::cli::some_prompts::SomePrompts;
use crate::cli::source::{OverrideArgs, prepare};
use crate::core::sampling::SamplingParams;
use crate::io::terminal;
use crate::run::experiment::Plan;
use crate::tapes::recording::{Recording, TapeFile};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec tape record experiments/01-draft-length --out 01.tape.jsonl
  specdec tape record --target models/big --prompts my-prompts.jsonl --temperature 0.7 \\
      --out big.tape.jsonl

With an experiment, the tape gets the completions of its baselines: one per prompt, repeat and
sampling setting, the same as `specdec run` would generate. Without one, the options name target,
prompts and sampling. Repeat the command to continue an interrupted recording.")]
pub(super) struct RecordArgs {
    /// A folder with an experiment.toml, or a TOML file
    #[arg(value_name = "EXPERIMENT", conflicts_with_all = ["target", "prompts", "limit"])]
    experiment: Option<PathBuf>,
    #[command(flatten)]
    overrides: OverrideArgs,
    /// The tape to write
    #[arg(long, short = 'o', value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    models: ModelArgs,
    #[command(flatten)]
    prompts: SomePrompts,
    /// Maximum number of new tokens per completion
    #[arg(long, short = 'n', value_name = "N", default_value_t = 64, value_parser = count)]
    max_tokens: usize,
    /// Completions per prompt
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeats: u32,
    /// Seed of the completions
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Treat end tokens like any other token
    #[arg(long)]
    ignore_eos: bool,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// Records the completions, and says what the tape holds.
pub(super) fn run(args: &RecordArgs) -> Result<()> {
    let file = match &args.experiment {
        Some(experiment) => of_experiment(args, experiment)?,
        None => of_options(args)?,
    };
    terminal::say(contents(file.tape()).trim_end());
    output::line(args.out.display())
}

fn of_experiment(args: &RecordArgs, experiment: &std::path::Path) -> Result<TapeFile> {
    let ready = prepare(experiment, &args.overrides)?;
    let frozen = ready.freeze(&ready.texts())?;
    let samplings = samplings(&frozen.plan)?;
    ready.recording(frozen, samplings)?.run(&args.out)
}

/// The sampling settings of a plan, each once: a completion is the same in every batch. Beam
/// searches are not sampled.
fn samplings(plan: &Plan) -> Result<Vec<SamplingParams>> {
    let mut samplings = Vec::new();
    for cell in plan.cells.iter().filter(|cell| cell.beam.is_none()) {
        if !samplings.contains(&cell.method.sampling) {
            samplings.push(cell.method.sampling.clone());
        }
    }
    if samplings.is_empty() {
        bail!("the experiment has only beam searches: a tape holds sampled completions");
    }
    Ok(samplings)
}

fn of_options(args: &RecordArgs) -> Result<TapeFile> {
    let sampling = args.sampling.target()?;
    let (pair, (name, _)) = open_pair(&args.models, false, false)?;
    let recording = Recording {
        target: &*pair.target.model,
        name: &name,
        codec: &*pair.target.codec,
        samplings: vec![sampling],
        prompts: args.prompts.chosen(&pair, args.max_tokens)?,
        repeats: args.repeats,
        seed: args.seed,
        max_tokens: args.max_tokens,
        ignore_eos: args.ignore_eos,
    };
    recording.run(&args.out)
}
