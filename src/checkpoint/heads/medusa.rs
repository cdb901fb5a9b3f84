//! Medusa heads, as the method's own repository writes them.

use super::files::HeadFiles;
use crate::core::error::Error;
use crate::engine::decoder::MedusaConfig;

/// The name of the format.
pub(super) const NAME: &str = "medusa";

/// What names may begin with: nothing in a file of heads alone.
const PREFIXES: [&str; 3] = ["", "medusa_head.", "medusa_heads."];

/// Whether a checkpoint has this format.
pub(super) fn fits(files: &HeadFiles<'_>) -> bool {
    files.keys.size("medusa_num_heads").is_ok_and(|heads| heads.is_some())
}

/// The shape, and the names of blocks. A file may hold each block of a head, which are one object,
/// or the first one alone.
pub(super) fn shape(files: &HeadFiles<'_>) -> Result<(MedusaConfig, Vec<(String, String)>), Error> {
    let keys = &files.keys;
    let blocks = keys.size_up_to(64, "medusa_num_layers")?.unwrap_or(1);
    let first = |prefix: &&&str| files.weights.has(&format!("{prefix}0.0.linear.weight"));
    let prefix = PREFIXES.iter().find(first).copied().unwrap_or_default();
    let own = |head: usize| files.weights.has(&format!("{prefix}{head}.{blocks}.weight"));
    let there = |head: &usize| files.weights.has(&format!("{prefix}{head}.0.linear.weight"));
    // The number in published configurations is not that of the heads in the file.
    let heads = (0..64).take_while(there).count();
    let stated = keys.required("medusa_num_heads", keys.size("medusa_num_heads")?)?;
    let config = MedusaConfig { width: files.hidden.width, heads, blocks, own_heads: own(0) };
    if heads == 0 {
        let what = format!("medusa_num_heads is {stated}, but tensor 0.0.linear.weight is missing");
        return Err(keys.fault(what));
    }
    let mut names = Vec::new();
    for head in 0..heads {
        for block in 0..blocks {
            let stored = format!("{prefix}{head}.{block}.linear");
            let there = files.weights.has(&format!("{stored}.weight"));
            let stored = if there { stored } else { format!("{prefix}{head}.0.linear") };
            names.push((format!("{head}.{block}.linear"), stored));
        }
        names.push((format!("{head}.{blocks}"), format!("{prefix}{head}.{blocks}")));
    }
    Ok((config, names))
}
