//! `specdec compare`: the same cells in two runs.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::output;
use crate::io::output::write_whole;
use crate::io::shown;
use crate::io::terminal;
use crate::measure::plot::broken;
use crate::measure::statistics::{ContrastFinding, LEVEL, Measure};
use crate::run::compare::{ComparedCell, ComparedRow, Comparison, compare};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec compare results/my-experiment/2026-01-31-some-cpu-2c results/my-experiment/2026-02-01-some-cpu-2c
  specdec compare RUN_A RUN_B --csv differences.csv

Generations are paired by prompt, and by repeat if both runs have the same seed. A ratio is B's
value divided by A's, with a 95 % interval over prompts. Runs of different machines are compared
in acceptance alone. docs/compare.md explains the table and the columns of --csv.")]
pub(super) struct CompareArgs {
    /// Results folder of the first run, A
    first: PathBuf,
    /// Results folder of the second run, B
    second: PathBuf,
    /// Also write one row per cell and measure to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CompareArgs) -> Result<()> {
    let comparison = compare(&args.first, &args.second)?;
    if let Some(file) = &args.csv {
        write_csv(&comparison, file)?;
    }
    if args.json {
        return output::write_json(&comparison);
    }
    output::show(&text(&comparison))
}

/// A row of the CSV file, with the cell that it is about.
#[derive(Debug, Serialize)]
struct CsvRow<'a> {
    cell_a: &'a str,
    cell_b: &'a str,
    #[serde(with = "shown::cell")]
    method: &'a str,
    measure: Measure,
    prompts: usize,
    a: f64,
    b: f64,
    ratio: Option<f64>,
    ratio_lo: Option<f64>,
    ratio_hi: Option<f64>,
    p: f64,
    exact: bool,
    p_holm: f64,
    finding: ContrastFinding,
    texts: Option<usize>,
    equal_texts: Option<usize>,
}

fn write_csv(comparison: &Comparison, file: &Path) -> Result<()> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for cell in &comparison.cells {
        for row in &cell.rows {
            writer.serialize(CsvRow {
                cell_a: &cell.ids[0],
                cell_b: &cell.ids[1],
                method: &cell.method,
                measure: row.measure,
                prompts: row.prompts,
                a: row.first,
                b: row.second,
                ratio: row.ratio,
                ratio_lo: row.ratio_lo,
                ratio_hi: row.ratio_hi,
                p: row.p,
                exact: row.exact,
                p_holm: row.p_holm,
                finding: row.finding,
                texts: cell.texts.map(|texts| texts.compared),
                equal_texts: cell.texts.map(|texts| texts.equal),
            })?;
        }
    }
    write_whole(file, &writer.into_inner()?)
}

/// The verdict, followed by one line per cell.
fn text(comparison: &Comparison) -> String {
    let mut lines = Vec::new();
    for (name, run) in ["A", "B"].into_iter().zip(&comparison.runs) {
        lines.push(format!("{name}  {}", shown::line(run)));
    }
    let fits = |line: &str| line.chars().count() <= terminal::COLUMNS;
    for sentence in &comparison.verdict {
        lines.extend(broken(&shown::line(sentence), fits));
    }
    lines.push(String::new());
    lines.extend(table(comparison));
    lines.push(String::new());
    lines.push(format!(
        "B ÷ A [95 % over prompts]; * differs at {LEVEL} by a sign-flip test over prompts after \
         Holm's\nadjustment for the cells of the column, ? likewise, but prompts and sums point in \
         opposite ways"
    ));
    lines.join("\n") + "\n"
}

/// The measures of the table, with their headings.
const COLUMNS: [(Measure, &str); 4] = [
    (Measure::BlockEfficiency, "tokens/round"),
    (Measure::AcceptanceRate, "acceptance"),
    (Measure::TimePerToken, "time/token"),
    (Measure::Speedup, "speedup"),
];

fn table(comparison: &Comparison) -> Vec<String> {
    let known = |measure| comparison.cells.iter().any(|cell| cell.row(measure).is_some());
    let columns = COLUMNS.into_iter().filter(|(measure, _)| known(*measure)).collect::<Vec<_>>();
    let texts = comparison.cells.iter().any(|cell| cell.texts.is_some());
    let mut head = vec!["cell".to_owned()];
    head.extend(columns.iter().map(|(_, heading)| (*heading).to_owned()));
    head.extend(texts.then(|| "equal texts".to_owned()));
    let line = |cell: &ComparedCell| {
        let ratios =
            columns.iter().map(|(measure, _)| cell.row(*measure).map_or_else(dash, shown_ratio));
        let mut line = vec![shown::line(&cell.short)];
        line.extend(ratios);
        let equal = cell.texts.map(|texts| format!("{} of {}", texts.equal, texts.compared));
        line.extend(texts.then(|| equal.unwrap_or_else(dash)));
        line
    };
    let rows = [head].into_iter().chain(comparison.cells.iter().map(line)).collect::<Vec<_>>();
    output::aligned(&rows, |_| false)
}

fn dash() -> String {
    "–".to_owned()
}

/// `1.023 [0.991, 1.057]*`
fn shown_ratio(row: &ComparedRow) -> String {
    let mark = row.mark();
    match (row.ratio, row.ratio_lo.zip(row.ratio_hi)) {
        (Some(ratio), Some((lo, hi))) => format!("{ratio:.3} [{lo:.3}, {hi:.3}]{mark}"),
        (Some(ratio), None) => format!("{ratio:.3}{mark}"),
        (None, _) => format!("{:.3} for 0{mark}", row.second),
    }
}
