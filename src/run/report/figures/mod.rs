//! The figures of a report. They are drawn from the rows of `summary.csv` and `survival.csv`
//! and, where those do not suffice, from the rounds. Each figure is a [`Page`] that `plot`
//! renders; a figure without data is not written.

mod accepted_length;
mod by_setting;
mod categories;
mod curves;
mod data;
mod facets;
mod frontier;
mod looks;
mod methods;
mod policies;
mod residuals;
mod rows_of_cells;
mod time_per_round;
mod verifiers;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::document::{DocFigure, ours};
use super::loops::LoopShares;
use super::run::Run;
use super::validity::BEST_K;
use crate::io::output::{make_folder, write_whole};
use crate::measure::plot::Page;
use data::{Data, Looks};

/// What a figure is called.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Figure {
    /// Its file name without the extension.
    name: String,
    caption: String,
}

type DrawFigure = fn(&Data<'_>) -> Option<Page>;

/// Name, caption and drawing function of every figure with a fixed name.
const FIGURES: &[(&str, &str, DrawFigure)] = &[
    (
        "speedup",
        "Speedup over plain decoding by draft length, with 95 % intervals over prompts. Below 1 \
         speculation loses.",
        curves::speedup,
    ),
    (
        "methods",
        "alpha (the mean of Σ min(p, q) per position), tokens per target pass and speedup of every \
         method with too few K for a curve, and of the others at their best K; bars are 95 % intervals over prompts.",
        methods::draw,
    ),
    (
        "acceptance",
        "alpha, the mean of Σ min(p, q) over the draft positions reached, by draft length, with \
         95 % intervals over prompts.",
        curves::acceptance,
    ),
    (
        "survival",
        "S(i), the probability that a draft survives up to position i, in the cell with the \
         longest draft, with 95 % intervals over prompts.",
        curves::survival,
    ),
    (
        "accepted_length",
        "How many drafted tokens a round accepted, as a share of all rounds of the cell with the \
         longest draft.",
        accepted_length::draw,
    ),
    ("time_per_round", "Mean time of a round and where it went.", time_per_round::draw),
    (
        "residuals",
        "Measured over predicted speedup of every cell: with costs fitted to the rounds of the \
         other half of the prompts, and with those of the calibration; bars are 95 % intervals of \
         the measured speedup.",
        residuals::draw,
    ),
    (
        "verifiers",
        "Verifiers against rejection sampling of the same drafts: ratios of tokens per target \
         pass and of speed; bars are 95 % intervals over prompts.",
        verifiers::draw,
    ),
    (
        "policies",
        "Speed of each draft length policy over the fixed K that was the fastest on the other half \
         of the prompts; bars are 95 % intervals over prompts.",
        policies::draw,
    ),
    (
        "categories",
        "Speedup over plain decoding by category of prompt, at the best K of each method, without \
         repetition loops where these hold more than 10 % of the tokens of plain decoding; bars are \
         95 % intervals over prompts.",
        categories::draw,
    ),
    (
        "frontier",
        "Speedup against the mean total variation of a token's distribution from the target's; \
         exact verifiers lie at 0. Bars are 95 % intervals over prompts.",
        frontier::draw,
    ),
];

/// The widths of figures on wide and narrow pages, in pixels.
const PAGES: [f64; 2] = [800.0, 380.0];

/// Figures that show no times, so that a disturbed machine does not affect them.
const UNTIMED: &[&str] = &["acceptance", "survival", "accepted_length"];

/// Draws every figure that has data and writes it as SVG.
pub(super) fn write_all(folder: &Path, run: &Run) -> Result<Vec<DocFigure>> {
    let mut data = Data { run, looks: Looks::default() };
    data.looks = looks::assign(&data);
    make_folder(folder)?;
    let loops = LoopShares::of(run).filter(|loops| loops.alarming);
    let times = &run.times;
    let mut written = Vec::new();
    let single = FIGURES.iter().filter_map(|(name, caption, draw)| {
        let figure = Figure { name: (*name).to_owned(), caption: (*caption).to_owned() };
        Some((figure, draw(&data)?))
    });
    for (figure, mut page) in single.chain(by_setting::draw(&data)) {
        let Figure { name, caption } = figure;
        if !UNTIMED.contains(&name.as_str()) {
            page.notes.extend(loops.as_ref().map(|loops| loops.sentence.clone()));
            if let Some(note) = times.note() {
                page.notes.insert(0, note.to_owned());
            }
        }
        let caption = caption.replace(BEST_K, times.chosen_k());
        write_whole(&folder.join(format!("{name}.svg")), page.draw().as_bytes())?;
        let [wide, narrow] = PAGES.map(|width| page.inline(width));
        written.push(DocFigure { name, caption: ours(&caption), wide, narrow });
    }
    remove_stale(folder, &written)?;
    if written.is_empty() {
        // Nothing to show: version control would not keep an empty folder. Other files stay.
        let _ = fs::remove_dir(folder);
    }
    Ok(written)
}

/// Removes figures that an earlier report wrote and this one did not; those of earlier versions
/// had PNG files, too. Leaves files with other names alone.
fn remove_stale(folder: &Path, written: &[DocFigure]) -> Result<()> {
    let ours = |name: &str| FIGURES.iter().any(|(n, ..)| *n == name) || by_setting::names(name);
    let files =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for path in files.flatten().map(|file| file.path()).filter(|path| path.is_file()) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let stale = match path.extension().and_then(OsStr::to_str) {
            Some("svg") => written.iter().all(|figure| figure.name != name),
            Some("png") => true,
            _ => false,
        };
        if stale && ours(&name) {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}
