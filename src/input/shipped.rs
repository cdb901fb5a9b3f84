//! Files of the project that the program holds in its own memory: the embedded pair works
//! wherever the program is installed.
//!
//! They are read through the same functions as files on disk, so their parsing, hashes and
//! plans are the same. Unpacking them into a folder of the user would need a place to
//! write, and at every start a proof that nobody has changed what lies there. The library
//! has none of them until its program hands them over, so other programs do not carry
//! weights that they never load.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The folder that shipped files appear to lie in. As a colon ends it, it looks like the
/// source of a model that is no folder, such as `toy:mixed`.
const ROOT: &str = "embedded:";

static FILES: OnceLock<&'static [ShippedFile]> = OnceLock::new();

/// A file that the program holds.
#[derive(Debug, Clone, Copy)]
pub struct ShippedFile {
    /// Its path below the root of the project, with slashes.
    pub path: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
}

/// Makes files readable below [`shipped_root`]. Only the first call has an effect.
pub fn ship(files: &'static [ShippedFile]) {
    FILES.get_or_init(|| files);
}

/// The folder of the shipped files, if there are any.
pub fn shipped_root() -> Option<PathBuf> {
    FILES.get().map(|_| PathBuf::from(ROOT))
}

/// Whether a path leads into the folder of the shipped files.
pub fn is_shipped(path: &Path) -> bool {
    below_root(path).is_some()
}

/// The content of a shipped file.
pub(super) fn shipped(path: &Path) -> Option<&'static [u8]> {
    let path = below_root(path)?;
    FILES.get()?.iter().find(|file| Path::new(file.path) == path).map(|file| file.bytes)
}

/// The names of the shipped files that lie in a folder.
pub(super) fn shipped_in(folder: &Path) -> Vec<String> {
    let Some(folder) = below_root(folder) else { return Vec::new() };
    let files = FILES.get().into_iter().flat_map(|files| files.iter());
    let files = files.map(|file| Path::new(file.path)).filter(|file| file.parent() == Some(folder));
    files.filter_map(|file| Some(file.file_name()?.to_str()?.to_owned())).collect()
}

fn below_root(path: &Path) -> Option<&Path> {
    path.strip_prefix(ROOT).ok()
}
