//! Files that survive a crash: written whole or not at all, and synced together with
//! their folders.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// What the name of a file ends in while it is being written.
pub(super) const PARTIAL: &str = "partial";

/// Writes a file whole or not at all: under another name first, then renamed.
///
/// # Errors
/// Names the file if it cannot be written.
pub fn write_whole(file: &Path, bytes: &[u8]) -> Result<()> {
    let mut new = Replacement::begin(file)?;
    new.write_all(bytes).with_context(|| cannot_write(file))?;
    new.commit()
}

/// The message for a file that cannot be written.
pub(super) fn cannot_write(file: &Path) -> String {
    format!("cannot write {}", file.display())
}

/// A file that is written under another name, a part at a time, and takes the place of
/// the old one once it is complete.
#[derive(Debug)]
pub(super) struct Replacement<'a> {
    file: &'a Path,
    partial: PathBuf,
    out: BufWriter<File>,
}

impl<'a> Replacement<'a> {
    /// Begins to write `file`, which stays as it is for now.
    pub(super) fn begin(file: &'a Path) -> Result<Self> {
        let mut partial = file.to_owned().into_os_string();
        partial.push(format!(".{PARTIAL}"));
        let partial = PathBuf::from(partial);
        let out = File::create(&partial).with_context(|| cannot_write(file))?;
        Ok(Self { file, partial, out: BufWriter::new(out) })
    }

    /// Puts the complete file in its place.
    pub(super) fn commit(mut self) -> Result<()> {
        let mut finish = || -> io::Result<()> {
            self.out.flush()?;
            self.out.get_ref().sync_data()?;
            fs::rename(&self.partial, self.file)?;
            sync_folder(self.file.parent().unwrap_or(Path::new(".")))
        };
        finish().with_context(|| cannot_write(self.file))
    }
}

impl Write for Replacement<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for Replacement<'_> {
    fn drop(&mut self) {
        // After a failure the partial file would only take up disk space; after a success
        // it has another name.
        let _ = fs::remove_file(&self.partial);
    }
}

/// Syncs a folder, so that new and changed file names survive a crash of the machine.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // Only Unix can open a folder as a file.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
