//! Two runs that end texts at different tokens are compared up to where both have tokens.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde::Serialize;

use super::side::{RunSide, TextPlace};
use crate::measure::rows::{RoundRow, each_row};
use crate::measure::statistics::{Pairing, Rounds, Sample};
use crate::run::experiment::Plan;
use crate::run::report::CellView;

/// What a run has in the cells and prompts of both, and the other run does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct LeftOut {
    /// Generations that the other run lacks.
    pub generations: usize,
    /// Tokens of the other generations behind those that both runs have, if the runs end texts at
    /// different tokens.
    pub tokens: usize,
    /// All tokens of these generations.
    pub of: usize,
}

/// Whether a text of both runs ends at the same token.
pub(super) fn end_alike([a, b]: [&Plan; 2]) -> bool {
    (a.max_tokens, a.ignore_eos) == (b.max_tokens, b.ignore_eos)
}

/// Cuts the generations that both runs have to the tokens that both have, if the runs end texts at
/// different tokens. `cells` are the places of the same cells in each run. Returns what is left out
/// of each run.
///
/// # Errors
/// If the rounds or texts of a run cannot be read.
pub(super) fn cut(
    sides: &mut [RunSide; 2],
    cells: &[[usize; 2]],
    prompts: &BTreeSet<String>,
    pairing: Pairing,
) -> Result<[LeftOut; 2]> {
    let alike = end_alike([0, 1].map(|i| &sides[i].run.plan));
    let (mut parts, mut left_out) = ([BTreeMap::new(), BTreeMap::new()], [LeftOut::default(); 2]);
    for places in cells {
        let both = [0, 1].map(|i| &sides[i].run.cells[places[i]]);
        let samples = both.map(|cell| &cell.samples);
        let deepest = samples.into_iter().flatten().flat_map(|sample| sample.rounds.iter());
        let deepest = deepest.map(|round| round.depth).max().unwrap_or(0);
        for i in [0, 1] {
            let theirs = tokens(samples[1 - i], pairing);
            for sample in samples[i].iter().filter(|sample| prompts.contains(&*sample.prompt)) {
                let Some(&most) = theirs.get(&place(sample, pairing)) else {
                    left_out[i].generations += 1;
                    continue;
                };
                let common = if alike { sample.new_tokens } else { sample.new_tokens.min(most) };
                left_out[i].of += sample.new_tokens;
                left_out[i].tokens += sample.new_tokens - common;
                let end = sample.rounds.begin + common;
                let part = CommonPart { end, deepest, ..CommonPart::default() };
                parts[i]
                    .insert((both[i].id.clone(), sample.prompt.to_string(), sample.repeat), part);
            }
        }
    }
    if !alike {
        for (side, parts) in sides.iter_mut().zip(parts) {
            side.read_tokens()?;
            shorten(side, parts)?;
        }
    }
    Ok(left_out)
}

/// What pairs a generation with those of the other run.
fn place(sample: &Sample, pairing: Pairing) -> (&str, u32) {
    match pairing {
        Pairing::PromptAndRepeat => (&sample.prompt, sample.repeat),
        Pairing::Prompt => (&sample.prompt, 0),
    }
}

/// The tokens of the longest generation in each place.
fn tokens(samples: &[Sample], pairing: Pairing) -> BTreeMap<(&str, u32), usize> {
    let mut most = BTreeMap::new();
    for sample in samples {
        let tokens = most.entry(place(sample, pairing)).or_insert(0);
        *tokens = sample.new_tokens.max(*tokens);
    }
    most
}

/// Leaves only these parts of a run's generations.
fn shorten(side: &mut RunSide, mut parts: BTreeMap<TextPlace, CommonPart>) -> Result<()> {
    each_row(&side.folder, |row: RoundRow| {
        let place = (row.cell.clone(), row.prompt.clone(), row.repeat);
        if let Some(part) = parts.get_mut(&place)
            && row.context_tokens + part.deepest < part.end
            && part.rounds.add(&row)
        {
            part.tokens += row.emitted;
        }
        Ok(())
    })?;
    for CellView { cell, samples, .. } in &mut side.run.cells {
        for sample in samples {
            let place = (cell.id.clone(), sample.prompt.to_string(), sample.repeat);
            if let Some(part) = parts.remove(&place) {
                part.replace(sample);
            }
        }
    }
    Ok(())
}

/// The rounds of a generation whose drafts the end of the text does not cut in any run.
#[derive(Debug, Default)]
struct CommonPart {
    /// Prompt and common tokens.
    end: usize,
    /// The largest depth of a draft.
    deepest: usize,
    rounds: Rounds,
    tokens: usize,
}

impl CommonPart {
    /// Leaves only this part of a generation.
    fn replace(self, sample: &mut Sample) {
        sample.new_tokens = self.tokens;
        sample.target_forwards = self.rounds.len();
        sample.decode_us = self.rounds.times.total();
        *sample.rounds = self.rounds;
    }
}
