//! Which files of a folder hold its weights.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::files::Text;
use crate::checkpoint::layout::WEIGHTS;
use crate::core::error::Error;
use crate::io::input::is_there;

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The names of the files that hold the weights of `folder`, whether they are there or not.
///
/// # Errors
/// If the list of shards is damaged, or there are no weights.
#[cfg(feature = "harness")]
pub(crate) fn weight_files(folder: &Path) -> Result<Vec<String>, Error> {
    let main = main_file(folder);
    if !is_index(&main) {
        let name = main.file_name().unwrap_or_default();
        return Ok(vec![name.to_string_lossy().into_owned()]);
    }
    let (index, weight_map) = read_index(main)?;
    Ok(shard_names(&index, &weight_map)?.into_iter().cloned().collect())
}

/// The file of the weights of `folder`, or the list of their shards.
pub(super) fn main_file(folder: &Path) -> PathBuf {
    // A dangling link counts as present; reading it then fails.
    let mut files = WEIGHTS.iter().map(|name| folder.join(name));
    files.find(|file| is_there(file)).unwrap_or_else(|| folder.join(WEIGHTS[1]))
}

/// Whether a file of weights is the list of their shards.
pub(super) fn is_index(main: &Path) -> bool {
    main.extension().is_some_and(|end| end == "json")
}

/// The list of shards, and the shard of each tensor.
pub(super) fn read_index(file: PathBuf) -> Result<(Text, BTreeMap<String, String>), Error> {
    let index = Text::read(file)?;
    let weight_map = index.json::<Index>()?.weight_map;
    Ok((index, weight_map))
}

/// The sorted names of the shards.
pub(super) fn shard_names<'m>(
    index: &Text,
    weight_map: &'m BTreeMap<String, String>,
) -> Result<Vec<&'m String>, Error> {
    let mut names = weight_map.values().collect::<Vec<_>>();
    names.sort();
    names.dedup();
    // A shard lies next to its index; a path to another folder is rejected.
    let is_name = |n: &str| n.len() <= 255 && Path::new(n).file_name() == Some(n.as_ref());
    match names.iter().find(|name| !is_name(name)) {
        Some(name) => Err(index.fault(format!("\"{name}\" is not the name of a file"))),
        None => Ok(names),
    }
}
