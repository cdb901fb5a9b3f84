//! The figures, one file each. All are drawn from the rows of `summary.csv` and
//! `survival.csv` and, where those do not suffice, from the rounds.

mod acceptance;
mod accepted_length;
mod by_setting;
mod categories;
mod frontier;
mod policies;
mod rows;
pub(crate) mod sheet;
mod speedup;
mod survival;
mod time_per_round;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::load::Results;
use super::series::{Series, series};
use crate::experiment::records::{SummaryRow, SurvivalRow};
use sheet::Sheet;

/// A figure that was written, as `figures/<name>.svg` and `figures/<name>.png`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Figure {
    /// Its file name without the extension.
    pub(super) name: String,
    /// What it shows, in one sentence.
    pub(super) caption: String,
}

/// What figures are drawn from.
struct Data<'a> {
    results: &'a Results,
    series: Vec<Series<'a>>,
    summary: &'a [SummaryRow],
    survival: &'a [SurvivalRow],
}

type Draw = fn(&Data<'_>) -> Option<Sheet>;

/// Name, caption and drawing of every figure there is one of.
const FIGURES: &[(&str, &str, Draw)] = &[
    (
        "acceptance",
        "alpha, the mean of Σ min(p, q) over the draft positions reached, by draft \
                      length and temperature; bands are 95 % bootstrap intervals over prompts.",
        acceptance::draw,
    ),
    (
        "survival",
        "S(i), the probability that a draft survives up to position i, in the cell \
                      with the longest draft; bands are 95 % bootstrap intervals over prompts.",
        survival::draw,
    ),
    (
        "speedup",
        "Speedup over plain decoding by draft length, measured (solid, with 95 % \
                      bootstrap intervals over prompts) and predicted from calibrated costs and \
                      survival on other prompts (dashed); below the line at 1.0 speculation loses.",
        speedup::draw,
    ),
    (
        "accepted_length",
        "How many drafted tokens a round accepted, as a share of all rounds of the \
                      cell with the longest draft.",
        accepted_length::draw,
    ),
    (
        "time_per_round",
        "Mean time of a round and where it went, by draft length; K = 0 is plain \
                      decoding.",
        time_per_round::draw,
    ),
    (
        "policies",
        "Speed of each draft length policy over the fixed K that was the fastest on the other half \
         of the prompts; bars are 95 % bootstrap intervals over prompts.",
        policies::draw,
    ),
    (
        "categories",
        "Speedup over plain decoding by category of prompt, at the best K of each method; bars are \
         95 % bootstrap intervals over prompts.",
        categories::draw,
    ),
    (
        "frontier",
        "Speedup against the mean total variation of a token's law from the target's; exact \
         verifiers lie at 0. Bars are 95 % bootstrap intervals over prompts.",
        frontier::draw,
    ),
];

/// Draws every figure that has data and writes it as SVG and PNG.
///
/// # Errors
/// If a file cannot be written; the sentence names it.
pub(super) fn write_all(
    folder: &Path,
    results: &Results,
    summary: &[SummaryRow],
    survival: &[SurvivalRow],
) -> Result<Vec<Figure>> {
    let data = Data { results, series: series(results), summary, survival };
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut written = Vec::new();
    let single = FIGURES.iter().filter_map(|(name, caption, draw)| {
        let figure = Figure { name: (*name).to_owned(), caption: (*caption).to_owned() };
        Some((figure, draw(&data)?))
    });
    for (figure, sheet) in single.chain(by_setting::draw(&data)) {
        let drawn = sheet.draw().with_context(|| format!("figure {}", figure.name))?;
        write(folder, &figure.name, "svg", drawn.svg.as_bytes())?;
        write(folder, &figure.name, "png", &drawn.png)?;
        written.push(figure);
    }
    Ok(written)
}

fn write(folder: &Path, name: &str, extension: &str, bytes: &[u8]) -> Result<()> {
    let path = folder.join(format!("{name}.{extension}"));
    fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

impl<'a> Data<'a> {
    /// The names that `name` gives to the series, each once, in order.
    fn names(&self, name: impl for<'s> Fn(&'s Series<'a>) -> &'s String) -> Vec<String> {
        let mut names = Vec::<String>::new();
        for series in &self.series {
            if !names.contains(name(series)) {
                names.push(name(series).clone());
            }
        }
        names
    }

    /// The series of one method and sampling setting.
    fn find(&self, method: &str, sampling: &str) -> Option<&Series<'a>> {
        self.series.iter().find(|s| s.method == method && s.sampling == sampling)
    }

    /// The summary row of a cell.
    fn row(&self, cell: &str) -> Option<&SummaryRow> {
        self.summary.iter().find(|row| row.cell == cell)
    }

    /// The longest draft length of the run, at least 1.
    fn longest(&self) -> usize {
        let lengths = self.series.iter().flat_map(|s| &s.cells).map(|c| c.num_speculative_tokens);
        lengths.max().unwrap_or(1).max(1)
    }
}
