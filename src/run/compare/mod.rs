//! Compares two runs: the same cells on the same prompts, by acceptance and, if both runs were
//! timed on the same machine, by time.

mod difference;
mod extent;
mod matching;
mod rows;
mod side;
mod verdict;

use std::path::Path;

use anyhow::{Result, bail};
use serde::Serialize;

pub use difference::Difference;
pub use extent::LeftOut;
pub use rows::{ComparedCell, ComparedRow};

use crate::measure::statistics::{
    CellOfRun, Measure, PairedPrompts, Pairing, contrasts, pair_runs,
};
use difference::{differences, same_times};
use extent::cut;
use matching::matched;
use side::RunSide;

/// Two runs, compared.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The folders of both runs.
    pub runs: [String; 2],
    /// What was found, in a few sentences.
    pub verdict: Vec<String>,
    /// Why times are not compared; `None` if they are.
    pub no_times: Option<String>,
    /// What differs between the runs.
    pub differences: Vec<Difference>,
    /// How generations are paired.
    pub pairing: Pairing,
    /// The number of prompts that are paired.
    pub prompts: usize,
    /// The cells that both runs have.
    pub cells: Vec<ComparedCell>,
    /// How many cells of each run the other one lacks.
    pub unmatched: [usize; 2],
    /// What each run has in these cells and the other one does not.
    pub left_out: [LeftOut; 2],
}

/// Compares the runs of two results folders.
///
/// # Errors
/// If a folder is not that of a finished run, or if they have no cell or no prompt in common.
pub fn compare(first: &Path, second: &Path) -> Result<Comparison> {
    let mut sides = [RunSide::read(first)?, RunSide::read(second)?];
    let [a, b] = &sides;
    let cells = matched(a, b);
    if cells.is_empty() {
        bail!(
            "{} and {} have no cell in common: compare runs with the same drafter, verifier, \
             draft length and sampling",
            first.display(),
            second.display()
        );
    }
    let plans = [&a.run.plan, &b.run.plan];
    let pairing = match plans[0].seed == plans[1].seed {
        true => Pairing::PromptAndRepeat,
        false => Pairing::Prompt,
    };
    let prompts = a.prompts_as_in(b);
    if prompts.is_empty() {
        bail!(
            "{} and {} have no prompt in common: compare runs on the same prompts",
            first.display(),
            second.display()
        );
    }
    let left_out = cut(&mut sides, &cells, &prompts, pairing)?;
    let [a, b] = &sides;
    let cells = cells.into_iter().map(|[own, other]| [&a.run.cells[own], &b.run.cells[other]]);
    let cells = cells.collect::<Vec<_>>();
    let no_times = same_times(a, b).err();
    let paired = cells.iter().map(|cells| {
        let own = |side: usize| CellOfRun {
            samples: &cells[side].samples,
            baseline: sides[side].run.baseline(cells[side]),
        };
        let prompts = pair_runs([own(0), own(1)], pairing, |prompt| prompts.contains(prompt));
        prompts.into_values().collect::<PairedPrompts>()
    });
    let paired = paired.collect::<Vec<_>>();
    let compared = cells.iter().map(|cells| ComparedCell::of([a, b], *cells, &prompts));
    let mut compared = compared.collect::<Vec<_>>();
    for measure in Measure::ALL {
        if measure.is_timed() && no_times.is_some() {
            continue;
        }
        // Plain decoding accepts nothing, and its speedup is 1.
        let of_cell = cells.iter().zip(&paired).map(|(cells, prompts)| {
            let none = cells[0].is_baseline() && measure != Measure::TimePerToken;
            if none { Vec::new() } else { prompts.clone() }
        });
        let found = contrasts(&of_cell.collect::<Vec<_>>(), measure);
        for (cell, contrast) in compared.iter_mut().zip(found) {
            cell.rows.extend(contrast.map(|contrast| ComparedRow::new(measure, &contrast)));
        }
    }
    let mut comparison = Comparison {
        runs: [first, second].map(|path| path.display().to_string()),
        verdict: Vec::new(),
        no_times,
        differences: differences(a, b),
        pairing,
        prompts: prompts.len(),
        unmatched: [a, b].map(|side| side.cells().count().saturating_sub(cells.len())),
        cells: compared,
        left_out,
    };
    comparison.verdict = verdict::sentences(&comparison, [a, b]);
    Ok(comparison)
}
