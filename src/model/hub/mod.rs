//! Models by their names on the Hugging Face hub, in the cache that its own tools fill.

mod cache;
mod gguf;
mod name;
mod snapshot;
mod walk;

use std::path::PathBuf;

pub use self::cache::HubCache;
use self::cache::Lookup;
pub use self::name::HubName;
use self::snapshot::Holding;
use super::Source;
use crate::error::Error;

/// A model in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HubModel {
    /// A folder in the Hugging Face layout, or a GGUF file.
    pub(super) path: PathBuf,
    /// The commit of its repository.
    pub(super) commit: String,
}

impl HubModel {
    /// The model, for [`load`](super::load).
    pub(super) fn into_source(self) -> Source {
        let path = self.path.to_string_lossy().into_owned();
        Source { revision: Some(self.commit), ..path.into() }
    }
}

/// All that a cache holds: every revision, and every GGUF file.
pub(super) fn all(cache: &HubCache) -> Vec<(HubName, Result<HubModel, Error>)> {
    let names = cache.names().into_iter().flat_map(|name| {
        let ggufs = match cache.find(&name) {
            Ok(Lookup::Found(snapshot)) => snapshot.gguf_files(),
            _ => Vec::new(),
        };
        match &ggufs[..] {
            [] => vec![name],
            paths => paths.iter().map(|path| name.clone().with_file(path)).collect(),
        }
    });
    names.map(|name| (name.clone(), find(Some(cache), &name))).collect()
}

/// Finds a model in a cache.
///
/// # Errors
/// If it is not there, or not all of it; the sentence has the command that downloads it.
pub(super) fn find(cache: Option<&HubCache>, name: &HubName) -> Result<HubModel, Error> {
    held(cache, name)?.map_err(|why| absent(name, &why))
}

/// The error for a model that is not in the cache.
fn absent(name: &HubName, why: &str) -> Error {
    let command = name.command();
    Error::setting(format!(
        "model {name}: there is no such folder, and {why}: `{command}` downloads it"
    ))
}

/// The model, or a clause that says what is missing.
fn held(cache: Option<&HubCache>, name: &HubName) -> Result<Result<HubModel, String>, Error> {
    let Some(cache) = cache else {
        return Ok(Err("there is no home folder with a Hugging Face cache (HF_HOME)".to_owned()));
    };
    let snapshot = match cache.find(name)? {
        Lookup::Found(snapshot) => snapshot,
        Lookup::Absent(why) => return Ok(Err(why)),
    };
    Ok(match snapshot.holds(name.file())? {
        Holding::Whole(path) => Ok(HubModel { path, commit: snapshot.commit().to_owned() }),
        Holding::Partly(why) => Err(why),
    })
}
