//! P-EAGLE (Hui et al. 2026, arXiv 2602.01469): EAGLE-3 heads that draft in one pass, as speculators
//! and SpecForge write them; and PARD (An et al. 2025, arXiv 2504.18583), draft models that do.

use std::path::Path;

use serde_json::{Map, Value};

use super::files::HeadFiles;
use super::{Format, HeadShape, eagle3};
use crate::checkpoint::families::ConfigKeys;
use crate::checkpoint::hf::Text;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::engine::decoder::Drafting;
use crate::engine::{HeadSettings, Source};
use crate::model::{Loaded, ParallelModel};

/// The registry entry.
pub(super) const FORMAT: Format = Format { name: "p-eagle", fits, shape };

/// The token of a mask, by the keys of several programs.
const MASKS: [&str; 3] = ["mask_token_id", "pard_token", "ptd_token_id"];
/// The most rows that predict, and their number where no key says it.
const MOST_ROWS: usize = 64;
const ROWS: usize = 8;

fn fits(files: &HeadFiles<'_>) -> bool {
    files.weights.has("mask_hidden")
}

fn shape(files: &HeadFiles<'_>) -> Result<Vec<HeadShape>, Error> {
    let keys = &files.keys;
    let mask = mask(keys)?;
    let mask = keys.required(MASKS[0], mask)?;
    let mut shapes = eagle3::shape(files)?;
    let rows = rows(keys, files.settings)?;
    for HeadShape { config, .. } in &mut shapes {
        config.drafting = Drafting::Masked { mask, rows };
    }
    Ok(shapes)
}

fn mask(keys: &ConfigKeys<'_>) -> Result<Option<Token>, Error> {
    for key in MASKS {
        if let Some(id) = keys.count(key)? {
            return Ok(Some(id as Token));
        }
    }
    Ok(None)
}

/// The number of rows. No row depends on it.
fn rows(keys: &ConfigKeys<'_>, settings: &HeadSettings) -> Result<usize, Error> {
    if let Some(rows) = settings.block {
        return Ok(rows);
    }
    let said = keys.size_up_to(MOST_ROWS, "num_depths")?;
    Ok(said.unwrap_or(ROWS))
}

/// A draft model as it drafts: in one pass, if it is one of PARD.
///
/// # Errors
/// If its configuration is damaged.
pub(in crate::checkpoint) fn in_parallel(source: &Source, loaded: Loaded) -> Result<Loaded, Error> {
    let folder = Path::new(&source.path);
    let text = Text::read(folder.join("config.json"))?;
    let table = text.json::<Map<String, Value>>()?;
    let keys = ConfigKeys::new(&text.file, &table);
    if keys.count(MASKS[1])?.is_none() {
        return Ok(loaded);
    }
    let Some(token) = mask(&keys)? else { return Ok(loaded) };
    let rows = rows(&keys, &source.settings.head)?;
    let model = Box::new(ParallelModel::new(loaded.model, token, rows));
    Ok(Loaded { model, ..loaded })
}
