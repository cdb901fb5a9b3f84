//! Files that survive a crash: written whole or not at all, and synced together with
//! their folders.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Writes a file whole or not at all: under another name first, then renamed.
///
/// # Errors
/// Names the file if it cannot be written.
pub fn write_whole(file: &Path, bytes: &[u8]) -> Result<()> {
    let mut partial = file.to_owned().into_os_string();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let write = || -> io::Result<()> {
        let mut out = File::create(&partial)?;
        out.write_all(bytes)?;
        out.sync_data()?;
        fs::rename(&partial, file)?;
        sync_folder(file.parent().unwrap_or(Path::new(".")))
    };
    write().with_context(|| {
        // A partial file would only take up disk space.
        let _ = fs::remove_file(&partial);
        format!("cannot write {}", file.display())
    })
}

/// Syncs a folder, so that new and changed file names survive a crash of the machine.
///
/// # Errors
/// If the folder cannot be opened or synced.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // Only Unix can open a folder as a file.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
