//! Writes files. Each is written whole or not at all: under another name, which is then changed,
//! so a crash leaves no half of a file. Nothing is written through a symbolic link, for a folder
//! may come from a stranger: a link in the place of a file is replaced, and what it leads to stays
//! as it is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use crate::io::input::{names_descriptor, not_regular};

/// What the name of a file ends in while it is being written.
pub(crate) const PARTIAL: &str = "partial";

/// Writes a file whole or not at all.
///
/// # Errors
/// Names the file if it cannot be written, or is a FIFO, a device or a folder.
pub(crate) fn write_whole(file: &Path, bytes: &[u8]) -> Result<()> {
    let mut new = Replacement::begin(file)?;
    new.write_all(bytes).with_context(|| cannot_write(file))?;
    new.commit()
}

/// The message for a file that cannot be written.
pub(crate) fn cannot_write(file: &Path) -> String {
    format!("cannot write {}", file.display())
}

/// A file that is written under another name, a part at a time, and takes the place of
/// the old one once it is complete.
#[derive(Debug)]
pub(crate) struct Replacement<'a> {
    file: &'a Path,
    partial: PathBuf,
    out: BufWriter<File>,
}

impl<'a> Replacement<'a> {
    /// Begins to write `file`, which stays as it is for now.
    pub(crate) fn begin(file: &'a Path) -> Result<Self> {
        let mut partial = file.to_owned().into_os_string();
        partial.push(format!(".{PARTIAL}"));
        let partial = PathBuf::from(partial);
        let out = refuse_special(file).and_then(|()| {
            // A crash may have left one behind.
            remove(&partial)?;
            File::create_new(&partial)
        });
        let out = BufWriter::new(out.with_context(|| cannot_write(file))?);
        Ok(Self { file, partial, out })
    }

    /// Puts the complete file in its place.
    pub(crate) fn commit(mut self) -> Result<()> {
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

/// Refuses the place of anything but a file. A link to a FIFO or a device is refused, too: whoever
/// wrote it there, or `/dev/stdout`, expects no file in its place.
fn refuse_special(file: &Path) -> io::Result<()> {
    if names_descriptor(file) {
        return Err(io::Error::other("it names no file, but a descriptor of this process"));
    }
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        found => not_regular(found?.file_type()).map_or(Ok(()), Err),
    }
}

/// Removes a file or a link, if there is one.
pub(crate) fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Opens a file in place, to append to it or to lock it.
///
/// # Errors
/// If it cannot be opened, or is a link, a FIFO or a device.
pub(crate) fn open_in_place(options: &mut OpenOptions, file: &Path) -> io::Result<File> {
    if let Some(error) = fs::symlink_metadata(file).ok().and_then(|m| not_regular(m.file_type())) {
        return Err(error);
    }
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        // For what takes the file's place between the check and the opening.
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    }
    options.open(file)
}

/// Makes a folder for files, unless there is one.
///
/// # Errors
/// Names the folder if it cannot be made, or is a link, which could lead anywhere.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    let cannot = || format!("cannot make the folder {}", folder.display());
    if fs::symlink_metadata(folder).is_ok_and(|found| found.is_symlink()) {
        return Err(anyhow!("a symbolic link, not a folder").context(cannot()));
    }
    fs::create_dir_all(folder).with_context(cannot)
}

/// Syncs a folder, so that new and changed file names survive a crash of the machine.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // Only Unix can open a folder as a file.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
