//! Whether everything in a results folder is what was written.

use std::path::Path;

use anyhow::Result;

use super::check::misfits;
use super::digests::{self, SUMS};
use crate::measure::rows::{BlockDigest, Raw};
use crate::run::experiment::blocks::Places;
use crate::run::experiment::{Manifest, Plan, Status, read_plan};

/// What a check of a results folder has found.
#[derive(Debug, Default)]
pub struct FolderCheck {
    /// How many blocks were compared with their digests.
    pub blocks: usize,
    /// How many files of the report were; `None` if no digests of them were written.
    pub files: Option<usize>,
    /// What is not as it was written: a sentence each.
    pub wrong: Vec<String>,
}

/// Compares a results folder with the digests in it: the plan and the manifest with theirs, the
/// rows of each block with those in `blocks.csv`, and tables, figures and reports with
/// `SHA256SUMS`. What does not match is no error, but is listed.
///
/// # Errors
/// If there is no such folder.
pub fn check(folder: &Path) -> Result<FolderCheck> {
    super::load::check_folder(folder)?;
    let mut found = FolderCheck::default();
    let manifest = Manifest::read(folder);
    match read_plan(folder) {
        Ok(plan) => found.rows(folder, &plan, manifest.as_ref().ok())?,
        Err(error) => found.note(&error),
    }
    if let Err(error) = &manifest {
        found.note(error);
    }
    if folder.join(SUMS).symlink_metadata().is_ok() {
        match digests::check(folder) {
            Ok((files, wrong)) => {
                found.files = Some(files);
                found.wrong.extend(wrong);
            }
            Err(error) => found.note(&error),
        }
    }
    Ok(found)
}

impl FolderCheck {
    fn note(&mut self, error: &anyhow::Error) {
        self.wrong.push(format!("{error:#}"));
    }

    /// Compares the rows of all blocks.
    fn rows(&mut self, folder: &Path, plan: &Plan, manifest: Option<&Manifest>) -> Result<()> {
        let places = Places::new(plan);
        let mut unread = Vec::new();
        let raw = Raw::read_or(folder, places.lookup(), &mut (), &mut |file, error| {
            unread.push(file);
            self.note(&error);
            Ok(())
        })?;
        self.wrong.extend(raw.torn.iter().map(|name| format!("the last line of {name} is torn")));
        self.wrong.extend(raw.stranger.clone());
        let (standing, nothing) = (raw.standing(), BlockDigest::default());
        self.blocks = standing.len();
        for (number, block) in &standing {
            let mut wrong = misfits(block, raw.found.get(number).unwrap_or(&nothing))?;
            // What cannot be read was named already.
            wrong.retain(|sentence| unread.iter().all(|file| !sentence.contains(file)));
            if !wrong.is_empty() {
                let (prompt, repeat) = (&block.prompt, block.repeat);
                let what = wrong.join("; ");
                self.wrong
                    .push(format!("block {number} (prompt {prompt}, repeat {repeat}): {what}"));
            }
        }
        let ended = |m: &&Manifest| matches!(m.status, Status::Measured | Status::Finished);
        if let Some(manifest) = manifest.filter(ended)
            && manifest.blocks.0 != standing.len()
        {
            let (done, listed) = (manifest.blocks.0, standing.len());
            self.wrong.push(format!("blocks.csv lists {listed} blocks, and manifest.json {done}"));
        }
        Ok(())
    }
}
