//! `specdec merge`.

use std::path::PathBuf;

use anyhow::bail;

use super::output;
use super::run::PackingArgs;
use crate::io::shown;
use crate::io::terminal;
use crate::run::experiment::{Merged, merge};

/// How many of the things that are left out an error names.
const NAMED: usize = 8;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  specdec merge results/my-experiment/shards-0123456789ab --out results/my-experiment/merged
  specdec merge shard-1 shard-2 shard-3 --out merged
  specdec report merged

The folders must be parts of one plan. The merged folder is one that `specdec report` reads like that
of any run: its rows are in the order of the plan, and `specdec run EXPERIMENT --resume=merged` runs
blocks that it lacks. Under the virtual clock, its CSV files have the same bytes as those of a run on
one machine. A block that several folders have is taken once if its texts are the same in each of
them, and left out if not. Missing, unfinished and corrupt parts and damaged blocks are named; the
command then fails once it has merged what is there, unless --partial is given. The command prints
the path of the merged folder to standard output.")]
pub(super) struct MergeArgs {
    /// Results folders of a run's parts, or folders that hold them
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Folder to make; it must not exist, or be empty
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Succeed even if blocks are missing, corrupt or differ
    #[arg(long)]
    partial: bool,
    #[command(flatten)]
    packing: PackingArgs,
}

pub(super) fn run(args: &MergeArgs) -> anyhow::Result<()> {
    let Merged { folder, blocks: (done, all), left_out } =
        merge(&args.folders, &args.out, args.packing.pack_above)?;
    let merged = format!("merged {done} of {all} blocks into {}", folder.display());
    if !left_out.is_empty() && !args.partial {
        let mut named = left_out.iter().take(NAMED).cloned().collect::<Vec<_>>();
        if left_out.len() > NAMED {
            named.push(format!("and {} more, which manifest.json names", left_out.len() - NAMED));
        }
        bail!("{merged}: {}", named.join("; "));
    }
    for sentence in &left_out {
        terminal::say(shown::line(&format!("warning: {sentence}")));
    }
    terminal::say(&merged);
    output::line(folder.display())
}
