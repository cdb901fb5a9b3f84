//! The folders that are merged, as they are read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::super::blocks::Places;
use super::super::cell::{FORMAT, Plan};
use super::super::folder::read_plan;
use super::super::manifest::{Manifest, RunSession, Status};
use super::super::shares::results_in;
use crate::io::input::read_text;
use crate::measure::rows::{BlockDigest, BlockRow, Raw};

/// A folder with sound rows.
#[derive(Debug)]
pub(super) struct RunPart {
    pub(super) path: PathBuf,
    pub(super) manifest: Manifest,
    /// Its undamaged blocks, with the digests of their rows.
    pub(super) blocks: BTreeMap<usize, (BlockRow, BlockDigest)>,
    /// Its damaged blocks: a sentence each.
    pub(super) damaged: Vec<String>,
}

impl RunPart {
    fn read(path: &Path, plan: &Plan, places: &Places<'_>) -> Result<Self> {
        let manifest = Manifest::read(path)?;
        let mut raw = Raw::read(path, places.lookup(), &mut ())?;
        if let Some(stranger) = raw.stranger {
            bail!("{stranger}");
        }
        let mut part =
            Self { path: path.to_owned(), manifest, blocks: BTreeMap::new(), damaged: Vec::new() };
        let most = plan.blocks();
        for row in raw.blocks.into_iter().filter(|row| !row.superseded) {
            let digest = raw.found.remove(&row.block).unwrap_or_default();
            let known = row.block < most && row.session < part.manifest.sessions.len();
            if known && row.fits(&digest)? {
                part.blocks.insert(row.block, (row, digest));
            } else {
                part.damaged.push(format!(
                    "block {} (prompt {}, repeat {}) of {} is left out: its rows are not those \
                     that were written",
                    row.block,
                    row.prompt,
                    row.repeat,
                    path.display()
                ));
            }
        }
        Ok(part)
    }

    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Its sessions, each with a name of its machine. Runs that are not parts name no machine;
    /// theirs may be any, so that each of these runs has one of its own.
    pub(super) fn sessions(&self) -> impl Iterator<Item = RunSession> {
        self.manifest.sessions.iter().map(|session| {
            let host = session.host.clone().unwrap_or_else(|| format!("that of {}", self.name()));
            RunSession { host: Some(host), ..session.clone() }
        })
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.manifest.status, Status::Measured | Status::Finished)
    }
}

/// The first plan that was found, with its text and its folder.
struct PlanText {
    path: PathBuf,
    text: String,
    plan: Plan,
}

/// All folders that are merged.
#[derive(Debug)]
pub(super) struct RunParts {
    pub(super) plan: Plan,
    pub(super) parts: Vec<RunPart>,
    /// Corrupt folders: a sentence each.
    pub(super) left_out: Vec<String>,
}

impl RunParts {
    /// Reads folders, and all results folders within those that are none themselves.
    ///
    /// # Errors
    /// If a folder has no results, two are of different plans, or none is sound.
    pub(super) fn read(folders: &[PathBuf]) -> Result<Self> {
        let mut left_out = Vec::new();
        let mut corrupt = |path: &Path, error: &anyhow::Error| {
            left_out.push(format!("{} is corrupt and left out: {error:#}", path.display()));
        };
        let mut first: Option<PlanText> = None;
        let mut sound = Vec::new();
        for path in found(folders)? {
            // Of many cells a plan is long: those that have the same text are read once.
            let text = read_text(&path.join("plan.toml")).unwrap_or_default();
            if first.as_ref().is_some_and(|first| first.text == text) {
                sound.push(path);
                continue;
            }
            match (read_plan(&path), &first) {
                (Err(error), _) => corrupt(&path, &error),
                (Ok(plan), _) if plan.format != FORMAT => bail!(
                    "{} has rows of format {}: only those of format {FORMAT} can be merged",
                    path.display(),
                    plan.format
                ),
                (Ok(plan), None) => {
                    sound.push(path.clone());
                    first = Some(PlanText { path, text, plan });
                }
                (Ok(plan), Some(first)) if plan.hash == first.plan.hash => sound.push(path),
                (Ok(plan), Some(first)) => bail!(
                    "{} and {} are of different plans (hashes {} and {}): only parts of one plan \
                     can be merged",
                    first.path.display(),
                    path.display(),
                    first.plan.hash,
                    plan.hash
                ),
            }
        }
        let Some(PlanText { plan, .. }) = first else {
            bail!("nothing can be merged: {}", left_out.join("; "));
        };
        let places = Places::new(&plan);
        let mut parts = Vec::new();
        for path in &sound {
            match RunPart::read(path, &plan, &places) {
                Err(error) => corrupt(path, &error),
                Ok(part) => parts.push(part),
            }
        }
        if parts.iter().all(|part| part.blocks.is_empty()) {
            left_out.extend(parts.into_iter().flat_map(|part| part.damaged));
            let reasons =
                if left_out.is_empty() { "no block is done".into() } else { left_out.join("; ") };
            bail!("nothing can be merged: {reasons}");
        }
        drop(places);
        Ok(Self { plan, parts, left_out })
    }
}

/// The results folders that are meant, each once.
fn found(folders: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let (mut paths, mut seen) = (Vec::new(), BTreeSet::new());
    for folder in folders {
        if !folder.is_dir() {
            bail!(
                "{} is not a folder: give the results folders of a run's parts",
                folder.display()
            );
        }
        let own = folder.join("plan.toml").exists() || folder.join("manifest.json").exists();
        let within = if own { vec![folder.clone()] } else { results_in(folder)? };
        if within.is_empty() {
            bail!("{} has no results folder", folder.display());
        }
        for path in within {
            let place = path.canonicalize();
            let place = place.with_context(|| format!("cannot read {}", path.display()))?;
            if seen.insert(place) {
                paths.push(path);
            }
        }
    }
    Ok(paths)
}
