//! Builds the report of a run (tables, figures, `report.md` and `report.html`) from its raw
//! rows alone.
//! The output is deterministic: the same rows give the same bytes.

mod accounts;
mod as_json;
mod batches;
mod beams;
mod best;
mod brief;
mod by_category;
mod calibration_check;
mod check;
mod contents;
mod contrasts;
mod controls;
mod digests;
mod divergence;
mod document;
mod experts;
mod figures;
mod held_out;
mod intact;
mod load;
mod loops;
mod machines;
mod other_tools;
mod outliers;
mod page;
mod places;
mod policies;
mod reached;
mod run;
mod series;
mod sessions;
mod spec_bench;
mod speedup_ceiling;
mod summary;
mod tables;
mod thinking;
mod trace;
mod validity;
mod warnings;
mod worth;

use std::path::Path;

use anyhow::Result;

use crate::io::output::write_whole;

pub use as_json::ReportJson;
pub use brief::Brief;
pub use by_category::write_by_category;
pub use intact::{FolderCheck, check};
pub use load::load;
pub use reached::Reached;
pub use run::{CellView, Run, Series};
pub use spec_bench::write_spec_bench;
pub use tables::{headings, write_csv};
pub use validity::{InvalidTimes, SpeedVerdict, TimesValidity};

/// Reads a results folder and writes `summary.csv`, `survival.csv`, `figures/`
/// (SVG), `report.md`, `report.html` and their digests into it. Returns the summary for the terminal,
/// and the report for programs.
///
/// # Errors
/// If a file is missing, damaged or cannot be written; the message names the file.
pub fn report(folder: &Path) -> Result<(Brief, ReportJson)> {
    let run = load(folder)?;
    write_csv(&folder.join("summary.csv"), run.cells.iter().map(|cell| &cell.row))?;
    write_csv(&folder.join("survival.csv"), run.cells.iter().flat_map(|cell| &cell.survival))?;
    machines::write(folder, &run)?;
    thinking::write(folder, &run)?;
    let figures = figures::write_all(&folder.join("figures"), &run)?;
    let names = digests::names(&figures);
    let document = contents::compose(&run, figures);
    let page = page::render(&run, &document, &page::look(folder, &run)?);
    write_whole(&folder.join("report.md"), document::print(&document).as_bytes())?;
    write_whole(&folder.join("report.html"), page.as_bytes())?;
    digests::write(folder, &names)?;
    Ok((Brief::new(&run), ReportJson::new(&run)?))
}
