//! One of the two runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail};

use crate::experiment::{Cell, Status};
use crate::report::{Results, load};
use crate::rows::{GenerationRow, each_row};

/// A generation's cell, prompt and repeat.
pub(super) type TextPlace = (String, String, u32);

/// A run, with what a report does not need of it.
#[derive(Debug)]
pub(super) struct RunSide {
    pub(super) results: Results,
    /// SHA-256 of the texts of cells in which chance has no part.
    pub(super) texts: BTreeMap<TextPlace, String>,
    /// The number of tokens of each prompt.
    lengths: BTreeMap<String, usize>,
}

impl RunSide {
    /// Reads a results folder.
    ///
    /// # Errors
    /// If a file is missing or damaged, or if the run is not finished.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let results = load(folder)?;
        let manifest = &results.manifest;
        if !matches!(manifest.status, Status::Measured | Status::Finished) {
            let (done, all) = manifest.blocks;
            bail!(
                "{} is not finished: {done} of {all} blocks are done; continue it with `specdec \
                 run EXPERIMENT --resume`",
                folder.display()
            );
        }
        let determined = results.plan.cells.iter().filter(|cell| cell.is_determined());
        let determined = determined.map(|cell| cell.id.clone()).collect::<BTreeSet<_>>();
        let (mut texts, mut lengths) = (BTreeMap::new(), BTreeMap::new());
        each_row(folder, |row: GenerationRow| {
            if row.superseded {
                return Ok(());
            }
            lengths.insert(row.prompt.clone(), row.prompt_tokens);
            if determined.contains(&row.cell) {
                texts.insert((row.cell, row.prompt, row.repeat), row.text_sha256);
            }
            Ok(())
        })?;
        Ok(Self { results, texts, lengths })
    }

    /// The cells that are compared: all but the second runs of control cells.
    pub(super) fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.results.plan.cells.iter().filter(|cell| !cell.control)
    }

    /// The prompts of this run that `other` has, too: all with the same name if the hashes of
    /// the prompts are equal, else only those that also have the same number of tokens.
    pub(super) fn prompts_as_in(&self, other: &Self) -> BTreeSet<String> {
        let same = self.results.plan.prompts_sha256 == other.results.plan.prompts_sha256;
        let is_same = |(prompt, length): &(&String, &usize)| {
            other.lengths.get(*prompt).is_some_and(|theirs| same || theirs == *length)
        };
        self.lengths.iter().filter(is_same).map(|(prompt, _)| prompt.clone()).collect()
    }
}
