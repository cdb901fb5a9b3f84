//! `specdec submit`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};

use super::options::word;
use super::output;
use super::run::SourceArgs;
use crate::io::terminal;
use crate::run::cluster::{ClusterEngine, ClusterJob, KubernetesSettings};
use crate::run::experiment::{MOST_SHARDS, shards_folder};

#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("engine").required(true)),
    after_help = "\
Examples:
  specdec submit experiments/01-draft-length --slurm --shards 8
  specdec submit experiments/01-draft-length --slurm --shards 8 --with=--exclusive --send
  specdec submit experiments/01-draft-length --kubernetes --image registry/specdec --volume results
  specdec submit experiments/01-draft-length --hyperqueue --shards 100 > job.toml
  specdec submit experiments/01-draft-length --parallel --with=--sshloginfile=nodes

The command plans the experiment and prints what starts its parts, merges them and reports.
For Slurm, that is a script that submits a job array and a job that depends on it. For Kubernetes, it
is an Indexed Job and a suspended Job; for HyperQueue, a job definition file; for GNU parallel, one
command line. Read it, then send it: --send runs the printed text and nothing else. All machines need the current folder
under the same path. docs/cluster.md goes through each engine."
)]
pub(super) struct SubmitArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// For Slurm
    #[arg(long, group = "engine")]
    slurm: bool,
    /// For Kubernetes
    #[arg(long, group = "engine", requires_all = ["image", "volume"])]
    kubernetes: bool,
    /// For HyperQueue
    #[arg(long, group = "engine")]
    hyperqueue: bool,
    /// For GNU parallel
    #[arg(long, group = "engine")]
    parallel: bool,
    /// Number of parts; at most as many as the run has blocks
    #[arg(long, value_name = "N", default_value_t = 4)]
    shards: usize,
    /// Folder in which results folders are created
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
    /// Folder for the merged run [default: merged-PLAN next to the folder of the parts]
    #[arg(long, value_name = "DIR")]
    merged: Option<PathBuf>,
    /// The program as the machines find it [default: this one]
    #[arg(long, value_name = "PATH")]
    program: Option<String>,
    /// Also give OPTION to sbatch or parallel; repeatable
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true,
        conflicts_with_all = ["kubernetes", "hyperqueue"])]
    with: Vec<String>,
    /// Image with the program, for Kubernetes
    #[arg(long)]
    image: Option<String>,
    /// Claim of a volume with the current folder, for Kubernetes
    #[arg(long, value_name = "CLAIM")]
    volume: Option<String>,
    /// Send it, with the engine's own program
    #[arg(long)]
    send: bool,
}

impl SubmitArgs {
    fn engine(&self) -> ClusterEngine {
        let of = |value: &Option<String>| value.clone().unwrap_or_default();
        match self {
            Self { slurm: true, .. } => ClusterEngine::Slurm,
            Self { hyperqueue: true, .. } => ClusterEngine::HyperQueue,
            Self { parallel: true, .. } => ClusterEngine::Parallel,
            _ => ClusterEngine::Kubernetes(KubernetesSettings {
                image: of(&self.image),
                volume: of(&self.volume),
            }),
        }
    }

    fn job(&self) -> Result<ClusterJob> {
        if !(1..=MOST_SHARDS).contains(&self.shards) {
            bail!("--shards = {} is not allowed: from 1 to {MOST_SHARDS}", self.shards);
        }
        let ready = self.source.prepare()?;
        let plan = ready.freeze(&ready.texts())?.plan;
        let blocks = plan.blocks();
        let shards = self.shards.min(blocks);
        if shards < self.shards {
            terminal::say(format_args!("the run has {blocks} blocks, and as many parts at most"));
        }
        let parts = shards_folder(&self.out, &plan);
        let next_to_parts = || parts.with_file_name(format!("merged-{}", plan.hash));
        let merged = self.merged.clone().unwrap_or_else(next_to_parts);
        if merged.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            bail!("{} is not empty: name another folder with --merged", merged.display());
        }
        let (out, parts, merged) = (word(&self.out)?, word(&parts)?, word(&merged)?);
        let program = match &self.program {
            Some(program) => program.clone(),
            None if self.kubernetes => "specdec".to_owned(),
            None => word(&std::env::current_exe().context("the program has no path")?)?,
        };
        let run = [self.source.words()?, vec!["--out".to_owned(), out]].concat();
        Ok(ClusterJob {
            experiment: plan.experiment.clone(),
            folder: word(&std::env::current_dir().context("the current folder has no path")?)?,
            program,
            run,
            shards,
            merge: vec![parts, "--out".to_owned(), merged.clone()],
            report: vec![merged],
            with: self.with.clone(),
        })
    }
}

/// Prints or sends what starts a run in parts.
pub(super) fn run(args: &SubmitArgs) -> Result<()> {
    let (engine, job) = (args.engine(), args.job()?);
    if !args.send {
        return output::write(&engine.script(&job)?);
    }
    if let Some(rest) = engine.send(&job)? {
        terminal::say(format_args!("once all parts are complete, start the merge: {rest}"));
    }
    Ok(())
}
