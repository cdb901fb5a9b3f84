//! `specdec report`.

use std::path::PathBuf;

/// Options of `specdec report`.
#[derive(Debug, clap::Args)]
pub(super) struct ReportArgs {
    /// Results folder of a run: holds plan.toml, manifest.json, rounds.csv and generations.csv
    folder: PathBuf,
}

/// Regenerates summary.csv, survival.csv, the figures and report.md.
///
/// # Errors
/// If a file of the folder is missing or damaged; the sentence names it.
pub(super) fn run(args: &ReportArgs) -> anyhow::Result<()> {
    crate::report::report(&args.folder)?;
    println!("{}", args.folder.join("report.md").display());
    Ok(())
}
