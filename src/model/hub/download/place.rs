//! Where a cache keeps what was downloaded: snapshots of links to blobs, and references.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The folder of a commit.
pub(super) fn snapshot(repo: &Path, commit: &str) -> PathBuf {
    repo.join("snapshots").join(commit)
}

/// Gives a blob the path that its file has in the repository.
///
/// # Errors
/// If the cache cannot be written to.
pub(super) fn link(repo: &Path, commit: &str, path: &str, etag: &str) -> Result<(), Error> {
    let folder = snapshot(repo, commit);
    let (link, new) = (folder.join(path), folder.join(format!("{path}.{}", std::process::id())));
    let blob = format!("{}blobs/{etag}", "../".repeat(2 + path.matches('/').count()));
    let make = || {
        fs::create_dir_all(link.parent().unwrap_or(repo))?;
        join(repo, &blob, etag, &new)?;
        // It replaces an earlier link, perhaps one of another process a moment ago.
        fs::rename(&new, &link)
    };
    make().map_err(|e| Error::file(&link, format!("cannot be written: {e}")))
}

/// Makes a branch or tag stand for a commit.
///
/// # Errors
/// If the cache cannot be written to.
pub(super) fn refer(repo: &Path, revision: &str, commit: &str) -> Result<(), Error> {
    if revision == commit {
        return Ok(());
    }
    let file = repo.join("refs").join(revision);
    let new = repo.join("refs").join(format!(".new-{commit}-{}", std::process::id()));
    let write = || {
        fs::create_dir_all(file.parent().unwrap_or(repo))?;
        fs::write(&new, commit)?;
        // Nobody sees a part of it.
        fs::rename(&new, &file)
    };
    write().map_err(|e| Error::file(&file, format!("cannot be written: {e}")))
}

#[cfg(unix)]
fn join(_: &Path, blob: &str, _: &str, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(blob, link)
}

/// Links need rights that users of other systems do not have.
#[cfg(not(unix))]
fn join(repo: &Path, _: &str, etag: &str, link: &Path) -> io::Result<()> {
    fs::hard_link(repo.join("blobs").join(etag), link)
}
