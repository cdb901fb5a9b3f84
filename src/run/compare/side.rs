//! One of the two runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::core::distribution::Token;
use crate::measure::rows::{GenerationRow, TextRow, each_row};
use crate::method::decode::StopReason;
use crate::run::experiment::Status;
use crate::run::report::{CellView, Run, load};

/// A generation's cell, prompt and repeat.
pub(super) type TextPlace = (String, String, u32);

/// A run, with what a report does not need of it.
#[derive(Debug)]
pub(super) struct RunSide {
    pub(super) run: Run,
    pub(super) folder: PathBuf,
    /// The texts of cells in which chance has no part.
    pub(super) texts: BTreeMap<TextPlace, DeterminedText>,
    /// The number of tokens of each prompt.
    lengths: BTreeMap<String, usize>,
}

/// A text in which chance has no part.
#[derive(Debug)]
pub(super) struct DeterminedText {
    sha256: String,
    /// Whether the run's limit of tokens ended it.
    is_cut: bool,
    /// Its tokens, once [`RunSide::read_tokens`] has read them.
    tokens: Option<Vec<Token>>,
}

impl DeterminedText {
    /// Whether two texts are the same.
    pub(super) fn equals(&self, other: &Self) -> bool {
        self.sha256 == other.sha256
    }

    /// Whether two texts are the same up to the end of the shorter one, and that is where a limit
    /// cut it or, if only one of the runs ends texts at end tokens, where it ended; `None` if their
    /// tokens are not known.
    pub(super) fn begins_alike(&self, other: &Self, only_one_ends: bool) -> Option<bool> {
        let (own, theirs) = (self.tokens.as_ref()?, other.tokens.as_ref()?);
        let (short, cut, long) = match own.len() <= theirs.len() {
            true => (own, self.is_cut, theirs),
            false => (theirs, other.is_cut, own),
        };
        Some(long.starts_with(short) && (cut || only_one_ends || short.len() == long.len()))
    }
}

impl RunSide {
    /// Reads a results folder.
    ///
    /// # Errors
    /// If a file is missing or damaged, or if the run is not finished.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let run = load(folder)?;
        let manifest = &run.manifest;
        if !matches!(manifest.status, Status::Measured | Status::Finished) {
            let (done, all) = manifest.blocks;
            bail!(
                "{} is not finished: {done} of {all} blocks are done; continue it with `specdec \
                 run EXPERIMENT --resume`",
                folder.display()
            );
        }
        let determined = run.cells.iter().filter(|cell| cell.is_determined());
        let determined = determined.map(|cell| cell.id.clone()).collect::<BTreeSet<_>>();
        let (mut texts, mut lengths) = (BTreeMap::new(), BTreeMap::new());
        each_row(folder, |row: GenerationRow| {
            if row.superseded {
                return Ok(());
            }
            lengths.insert(row.prompt.clone(), row.prompt_tokens);
            if determined.contains(&row.cell) {
                let is_cut = row.stop_reason == StopReason::MaxTokens.name();
                let text = DeterminedText { sha256: row.text_sha256, is_cut, tokens: None };
                texts.insert((row.cell, row.prompt, row.repeat), text);
            }
            Ok(())
        })?;
        Ok(Self { folder: folder.to_owned(), run, texts, lengths })
    }

    /// Reads the tokens of [`Self::texts`].
    ///
    /// # Errors
    /// If the file is damaged.
    pub(super) fn read_tokens(&mut self) -> Result<()> {
        each_row(&self.folder, |row: TextRow| {
            if let Some(text) = self.texts.get_mut(&(row.cell, row.prompt, row.repeat)) {
                text.tokens = Some(row.tokens);
            }
            Ok(())
        })?;
        Ok(())
    }

    /// The cells that are compared, with their places: all but the second runs of control cells.
    pub(super) fn cells(&self) -> impl Iterator<Item = (usize, &CellView)> {
        self.run.cells.iter().enumerate().filter(|(_, cell)| !cell.control)
    }

    /// The prompts of this run that `other` has, too: all with the same name if the hashes of
    /// the prompts are equal, else only those that also have the same number of tokens.
    pub(super) fn prompts_as_in(&self, other: &Self) -> BTreeSet<String> {
        let same = self.run.plan.prompts_sha256 == other.run.plan.prompts_sha256;
        let is_same = |(prompt, length): &(&String, &usize)| {
            other.lengths.get(*prompt).is_some_and(|theirs| same || theirs == *length)
        };
        self.lengths.iter().filter(is_same).map(|(prompt, _)| prompt.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a text that ended by itself equals a longer one; the tokens are not compared.
    #[test]
    fn a_cut_text_begins_like_the_whole_one() {
        let text = |tokens: &[Token], is_cut| {
            let tokens = Some(tokens.to_vec());
            DeterminedText { sha256: String::new(), is_cut, tokens }
        };
        let whole = text(&[1, 2, 3, 4], true);
        let begins = |tokens: &[Token], is_cut, only_one_ends| {
            let own = text(tokens, is_cut);
            let found = own.begins_alike(&whole, only_one_ends);
            assert_eq!(found, whole.begins_alike(&own, only_one_ends));
            found
        };
        assert_eq!(begins(&[1, 2], true, false), Some(true));
        assert_eq!(begins(&[1, 2], false, false), Some(false), "the other run should end, too");
        assert_eq!(begins(&[1, 2], false, true), Some(true));
        assert_eq!(begins(&[1, 2, 3, 4], false, false), Some(true));
        assert_eq!(begins(&[1, 3], true, true), Some(false));
        let unknown = DeterminedText { tokens: None, ..text(&[], true) };
        assert_eq!(unknown.begins_alike(&whole, true), None);
    }
}
