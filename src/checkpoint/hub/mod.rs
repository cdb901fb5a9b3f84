//! Models by their names on the Hugging Face hub, in the cache that its own tools fill.

mod cache;
mod gguf;
mod name;
mod snapshot;
mod walk;

pub use self::cache::HubCache;
pub use self::name::HubName;
use crate::core::error::Error;
use crate::engine::Source;

/// All that a cache holds: every revision, and every GGUF file.
pub(super) fn all(cache: &HubCache) -> Vec<(HubName, Result<Source, Error>)> {
    let names = cache.names().into_iter().flat_map(|name| {
        let ggufs = cache.find(&name).map_or_else(|_| Vec::new(), |found| found.gguf_files());
        match &ggufs[..] {
            [] => vec![name],
            paths => paths.iter().map(|path| name.clone().with_file(path)).collect(),
        }
    });
    names.map(|name| (name.clone(), find(Some(cache), &name))).collect()
}

/// Finds a model in a cache, for [`load`](super::load).
///
/// # Errors
/// If it is not there, or not all of it; the sentence has the command that downloads it.
pub(super) fn find(cache: Option<&HubCache>, name: &HubName) -> Result<Source, Error> {
    let no_home = "there is no home folder with a Hugging Face cache (HF_HOME)";
    let snapshot = cache.ok_or_else(|| name.absent(no_home))?.find(name)?;
    let path = snapshot.model()?.to_string_lossy().into_owned();
    Ok(Source { revision: Some(snapshot.commit), ..path.into() })
}
