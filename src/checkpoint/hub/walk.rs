//! What lies in the folders of a cache.

use std::fs;
use std::path::Path;

use super::name::is_plain_path;

/// The sorted names of what lies in a folder; none if it cannot be read.
pub(super) fn entries(folder: &Path) -> Vec<String> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names = found.filter_map(|e| e.file_name().into_string().ok()).collect::<Vec<_>>();
    names.sort();
    names
}

/// The paths of all files below a folder, relative to it, as far as names can spell them.
/// Links to folders are not followed.
pub(super) fn paths_below(folder: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    add_paths(folder, "", &mut paths);
    paths
}

fn add_paths(folder: &Path, prefix: &str, paths: &mut Vec<String>) {
    for name in entries(folder) {
        let path = format!("{prefix}{name}");
        let below = folder.join(&name);
        if !is_plain_path(&path) {
            continue;
        }
        match below.symlink_metadata() {
            Ok(found) if found.is_dir() => add_paths(&below, &format!("{path}/"), paths),
            Ok(_) => paths.push(path),
            Err(_) => {}
        }
    }
}
