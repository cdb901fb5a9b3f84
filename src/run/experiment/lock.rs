//! One writer per results folder: an exclusive lock that is released when its process
//! ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::io::output::open_in_place;

/// The locked file; it names the process that holds the lock.
const NAME: &str = ".lock";

/// The right to write to a folder, held until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock of a folder.
    ///
    /// # Errors
    /// If another process holds it, which the message names, or the file system cannot
    /// lock.
    pub(super) fn take(folder: &Path) -> anyhow::Result<Self> {
        Self::get(folder, File::try_lock)
    }

    /// Takes the lock of a folder. `None` if the file system cannot lock.
    ///
    /// # Errors
    /// If another process holds it, which the message names.
    pub(super) fn take_if_able(folder: &Path) -> anyhow::Result<Option<Self>> {
        match Self::take(folder) {
            Err(error) if error.is::<io::Error>() => Ok(None),
            taken => taken.map(Some),
        }
    }

    /// Takes the lock of a folder as soon as nobody else holds it.
    ///
    /// # Errors
    /// If the file system cannot lock.
    pub(super) fn wait(folder: &Path) -> anyhow::Result<Self> {
        Self::get(folder, |file| file.lock().map_err(TryLockError::Error))
    }

    fn get(
        folder: &Path,
        lock: impl Fn(&File) -> Result<(), TryLockError>,
    ) -> anyhow::Result<Self> {
        let path = folder.join(NAME);
        let cannot = || format!("cannot lock the results folder {}", folder.display());
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let file = open_in_place(&mut options, &path);
            let file = file.with_context(|| format!("{}: {NAME}", cannot()))?;
            match lock(&file) {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => bail!(
                    "{} is being written by {}: wait until it ends",
                    folder.display(),
                    holder(&file)
                ),
                Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
            }
            // The last holder may have removed the file after it was opened here; then
            // try again.
            if is_at(&file, &path) {
                let mut lock = Self { file, path };
                lock.sign().with_context(cannot)?;
                return Ok(lock);
            }
        }
    }

    /// Notes that the folder has been renamed.
    pub(super) fn moved(&mut self, folder: &Path) {
        self.path = folder.join(NAME);
    }

    fn sign(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        write!(self.file, "process {}", std::process::id())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file is still locked, so this cannot remove another process's file. If it
        // fails, an unlocked file stays behind, which does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

/// The process that the lock file names.
fn holder(mut file: &File) -> String {
    let mut name = String::new();
    match file.read_to_string(&mut name) {
        Ok(_) if !name.is_empty() => name,
        _ => "another process".to_owned(),
    }
}

/// Whether the path still names this open file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    file.metadata().is_ok_and(|own| fs::metadata(path).is_ok_and(|found| same(own, found)))
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}
