//! The figures, one file each. All are drawn from the rows of `summary.csv` and
//! `survival.csv` and, where those do not suffice, from the rounds.

mod acceptance;
mod accepted_length;
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
    pub(super) name: &'static str,
    /// What it shows, in one sentence.
    pub(super) caption: &'static str,
}

/// What figures are drawn from.
struct Data<'a> {
    results: &'a Results,
    series: Vec<Series<'a>>,
    summary: &'a [SummaryRow],
    survival: &'a [SurvivalRow],
}

type Draw = fn(&Data<'_>) -> Option<Sheet>;

const FIGURES: &[(Figure, Draw)] = &[
    (
        Figure {
            name: "acceptance",
            caption: "alpha, the mean of Σ min(p, q) over the draft positions reached, by draft \
                      length and temperature; bands are 95 % bootstrap intervals over prompts.",
        },
        acceptance::draw,
    ),
    (
        Figure {
            name: "survival",
            caption: "S(i), the probability that a draft survives up to position i, in the cell \
                      with the longest draft; bands are 95 % bootstrap intervals over prompts.",
        },
        survival::draw,
    ),
    (
        Figure {
            name: "speedup",
            caption: "Speedup over plain decoding by draft length, measured (solid, with 95 % \
                      bootstrap intervals over prompts) and predicted from calibrated costs and \
                      survival on other prompts (dashed); below the line at 1.0 speculation loses.",
        },
        speedup::draw,
    ),
    (
        Figure {
            name: "accepted_length",
            caption: "How many drafted tokens a round accepted, as a share of all rounds of the \
                      cell with the longest draft.",
        },
        accepted_length::draw,
    ),
    (
        Figure {
            name: "time_per_round",
            caption: "Mean time of a round and where it went, by draft length; K = 0 is plain \
                      decoding.",
        },
        time_per_round::draw,
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
) -> Result<Vec<&'static Figure>> {
    let data = Data { results, series: series(results), summary, survival };
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut written = Vec::new();
    for (figure, draw) in FIGURES {
        let Some(sheet) = draw(&data) else { continue };
        let drawn = sheet.draw().with_context(|| format!("figure {}", figure.name))?;
        write(folder, figure.name, "svg", drawn.svg.as_bytes())?;
        write(folder, figure.name, "png", &drawn.png)?;
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
