//! `specdec report`.

use std::path::{Path, PathBuf};

use anyhow::bail;

use super::output;
use crate::io::{shown, terminal};
use crate::run::report::FolderCheck;
use crate::tapes::recording::MODEL;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  specdec report results/01-draft-length/2026-01-31-some-cpu-2c
  specdec report results/my-experiment/2026-01-31-some-cpu-2c --spec-bench
  specdec report results/01-draft-length/2026-01-31-some-cpu-2c --check

The command reads the raw rows, never changes them, and rewrites summary.csv, survival.csv,
report.md, report.html, the figures, and SHA256SUMS with their digests. It prints the path of the report to standard output, and a table of
results to standard error.")]
pub(super) struct ReportArgs {
    /// Results folder of a run, with plan.toml, manifest.json and the raw rows
    folder: PathBuf,
    /// Also write the run as Spec-Bench's rows: spec-bench/CELL.jsonl, and speed.csv with the
    /// numbers that its definition of speed gives
    #[arg(long)]
    spec_bench: bool,
    /// Also write the acceptance of every cell by category of prompt, in the shape of AIPerf's
    /// speed-bench-report: by-category/accept_length.csv and accept_rate.csv
    #[arg(long)]
    by_category: bool,
    /// Also write what passes cost in the rounds of a drafter, fitted-costs-DRAFTER.csv, for
    /// `specdec forecast` and `specdec simulate`
    #[arg(long, value_name = "DRAFTER", num_args = 0..=1, require_equals = true,
        default_missing_value = MODEL)]
    costs: Option<String>,
    /// Also move the rows of the run, if it is finished, to Parquet files, which are about half as
    /// large. Every command reads them; the run cannot be continued then
    #[arg(long)]
    pack: bool,
    /// Write nothing: compare plan, manifest, the rows of each block, tables and figures with their
    /// digests, and print what does not match
    #[arg(long, conflicts_with_all = ["spec_bench", "by_category", "costs", "pack", "json"])]
    check: bool,
    /// Print one JSON object instead of the path; docs/metrics.md defines its fields
    #[arg(long)]
    json: bool,
}

/// Writes summary.csv, survival.csv, the figures, report.md and report.html of a results folder.
pub(super) fn run(args: &ReportArgs) -> anyhow::Result<()> {
    if args.check {
        return check(&args.folder);
    }
    let (brief, json) = crate::run::report::report(&args.folder)?;
    terminal::say(brief.text(terminal::width().min(terminal::COLUMNS)).trim_end());
    if args.spec_bench {
        let folder = crate::run::report::write_spec_bench(&args.folder)?;
        terminal::say(format_args!("rows of Spec-Bench: {}", folder.display()));
    }
    if args.by_category {
        let folder = crate::run::report::write_by_category(&args.folder)?;
        terminal::say(format_args!("acceptance by category: {}", folder.display()));
    }
    if let Some(drafter) = &args.costs {
        let costs = crate::tapes::forecasting::write_costs(&args.folder, drafter)?;
        terminal::say(format_args!("costs of passes: {}", costs.display()));
    }
    if args.pack {
        crate::run::experiment::pack_run(&args.folder)?;
    }
    if args.json {
        return output::write_json(&json);
    }
    output::line(args.folder.join("report.md").display())
}

/// Prints what is not as it was written.
fn check(folder: &Path) -> anyhow::Result<()> {
    let FolderCheck { blocks, files, wrong } = crate::run::report::check(folder)?;
    output::show(&wrong.iter().map(|what| shown::line(what) + "\n").collect::<String>())?;
    if !wrong.is_empty() {
        bail!("{}: {} found", folder.display(), shown::count(wrong.len(), "difference"));
    }
    let files = files.map_or_else(
        || "tables and figures have no digests, which `specdec report` writes".to_owned(),
        |files| format!("{} of tables and figures", shown::count(files, "file")),
    );
    output::line(format_args!("as written: {}; {files}", shown::count(blocks, "block")))
}
