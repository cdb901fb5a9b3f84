//! Which GGUF file of a repository is meant.

use super::name::HubFile;

/// Digits of a shard's number.
const SHARD_DIGITS: usize = 5;
/// Files that belong to a model but are none: what projects images, and data for quantising.
const COMPANIONS: [&str; 2] = ["mmproj", "imatrix"];

/// The file that is meant, among those of a repository, with all of its shards in order;
/// none if there is no such file. A shard that is not there is listed all the same.
///
/// # Errors
/// If several match; a clause lists them.
pub(super) fn choose(paths: &[String], file: &HubFile) -> Result<Option<Vec<String>>, String> {
    let meant = |path: &&String| match file {
        HubFile::Path(name) => *path == name,
        HubFile::Quantisation(tag) => has_tag(path, tag) && !is_companion(path),
    };
    let mut found = paths.iter().filter(meant).map(|path| shards(path)).collect::<Vec<_>>();
    found.sort();
    found.dedup();
    if let (HubFile::Quantisation(tag), 2..) = (file, found.len()) {
        let names = found.iter().filter_map(|shards| shards.first()).cloned().collect::<Vec<_>>();
        return Err(format!("several files are {tag}: name one, as in :{}", names.join(" or :")));
    }
    Ok(found.pop())
}

/// A clause that says that no file matches, and lists those that are there.
pub(super) fn none(paths: &[String], file: &HubFile) -> String {
    let what = match file {
        HubFile::Path(path) => format!("there is no {path}"),
        HubFile::Quantisation(tag) => format!("there is no GGUF file of type {tag}"),
    };
    match paths {
        [] => what,
        paths => format!("{what} (but {})", paths.join(", ")),
    }
}

/// Whether a quantisation occurs in a path, and not as a part of a longer one: Q4_K is
/// neither in Q4_K_M nor in IQ4_K.
fn has_tag(path: &str, tag: &str) -> bool {
    let (path, tag) = (path.to_ascii_lowercase(), tag.to_ascii_lowercase());
    path.match_indices(&tag).any(|(at, _)| {
        let before = path[..at].chars().next_back();
        let after = path[at + tag.len()..].chars().next();
        !before.is_some_and(|c| c.is_ascii_alphanumeric())
            && !after.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn is_companion(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    COMPANIONS.iter().any(|companion| name.contains(companion))
}

/// All shards of the file of which this is one: `NAME-00001-of-00003.gguf` and so on.
fn shards(path: &str) -> Vec<String> {
    let parts = || {
        let (stem, end) = path.split_at_checked(path.len().checked_sub(".gguf".len())?)?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (name, number) = rest.rsplit_once('-')?;
        let digits = |n: &str| n.len() == SHARD_DIGITS && n.bytes().all(|b| b.is_ascii_digit());
        let count = (digits(number) && digits(count)).then(|| count.parse::<u32>().ok())??;
        let shard = |i| format!("{name}-{i:05}-of-{count:05}{end}");
        Some((1..=count).map(shard).collect::<Vec<_>>()).filter(|shards| !shards.is_empty())
    };
    parts().unwrap_or_else(|| vec![path.to_owned()])
}
