//! Project files that are embedded in the program, so that the embedded pair works in any
//! installation.
//!
//! They are read through the same functions as files on disk, so their parsing, hashes and plans
//! are the same. Unpacking them would need a writable folder, and a check at every start that
//! nobody has changed it. The library itself embeds no files; the program registers them, so other
//! programs do not carry weights that they never load.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The apparent folder of the embedded files. The colon at its end marks it as a model source that
/// is not a folder, as in `toy:mixed`.
const ROOT: &str = "embedded:";

static FILES: OnceLock<&'static [ShippedFile]> = OnceLock::new();

/// An embedded file.
#[derive(Debug, Clone, Copy)]
pub struct ShippedFile {
    /// Its path below the root of the project, with slashes.
    pub path: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
}

/// Registers files, which become readable below [`shipped_root`]. Only the first call has an
/// effect.
pub fn ship(files: &'static [ShippedFile]) {
    FILES.get_or_init(|| files);
}

/// The folder of the embedded files, if there are any.
pub fn shipped_root() -> Option<PathBuf> {
    FILES.get().map(|_| PathBuf::from(ROOT))
}

/// Whether a path lies in the folder of the embedded files.
pub fn is_shipped(path: &Path) -> bool {
    below_root(path).is_some()
}

/// The content of an embedded file.
pub(super) fn shipped(path: &Path) -> Option<&'static [u8]> {
    let path = below_root(path)?;
    FILES.get()?.iter().find(|file| Path::new(file.path) == path).map(|file| file.bytes)
}

/// The names of the embedded files in a folder.
pub(super) fn shipped_in(folder: &Path) -> Vec<String> {
    let Some(folder) = below_root(folder) else { return Vec::new() };
    let files = FILES.get().into_iter().flat_map(|files| files.iter());
    let files = files.map(|file| Path::new(file.path)).filter(|file| file.parent() == Some(folder));
    files.filter_map(|file| Some(file.file_name()?.to_str()?.to_owned())).collect()
}

fn below_root(path: &Path) -> Option<&Path> {
    path.strip_prefix(ROOT).ok()
}
