//! `specdec report`.

use std::path::PathBuf;

use super::output;
use crate::terminal;

/// Options of `specdec report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  specdec report results/01-draft-length/2026-01-31-some-cpu-2c

The raw rows are read and never changed; summary.csv, survival.csv, report.md and the figures are
written anew. Standard output is one line, the path of the report; a table of results goes to
standard error.")]
pub(super) struct ReportArgs {
    /// Results folder of a run: holds plan.toml, manifest.json, rounds.csv and generations.csv
    folder: PathBuf,
}

/// Regenerates summary.csv, survival.csv, the figures and report.md.
///
/// # Errors
/// If a file of the folder is missing or damaged; the sentence names it.
pub(super) fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let brief = crate::report::report(&args.folder)?;
    terminal::say(brief.text(terminal::width().min(terminal::COLUMNS)).trim_end());
    output::line(args.folder.join("report.md").display())
}
