//! The Hugging Face cache of this user: `models--OWNER--NAME/` holds `refs/REVISION`, which
//! names a commit, `snapshots/COMMIT/FILE`, which links to `blobs/HASH`, and the blobs.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::name::{DEFAULT_REVISION, HubName};
use super::snapshot::Snapshot;
use super::walk::{entries, paths_below};
use crate::core::error::Error;

/// Digits of a commit.
const COMMIT_DIGITS: usize = 40;
/// With how many digits tools shorten a commit at least.
const LEAST_DIGITS: usize = 7;
/// The most bytes of a file in `refs/` that are read.
const MOST_REF: u64 = 1000;

/// A folder in the layout of the Hugging Face cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubCache {
    root: PathBuf,
}

impl HubCache {
    /// The cache of the environment: `$HF_HUB_CACHE`, `$HF_HOME/hub`,
    /// `$XDG_CACHE_HOME/huggingface/hub` or `~/.cache/huggingface/hub`; none without a home.
    pub fn of_user() -> Option<Self> {
        Self::of(&|key| std::env::var_os(key), std::env::home_dir())
    }

    /// As [`Self::of_user`], with these variables and home.
    fn of(variable: &dyn Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> Option<Self> {
        let home = home.filter(|home| !home.as_os_str().is_empty());
        let folder = |key| folder_of(variable(key)?, home.as_deref());
        let root = folder("HF_HUB_CACHE")
            .or_else(|| folder("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| Some(folder("HF_HOME")?.join("hub")))
            .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("huggingface/hub")))
            .or_else(|| Some(home.as_deref()?.join(".cache/huggingface/hub")));
        root.map(Self::at)
    }

    /// The cache in this folder.
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// The folder of a repository.
    fn folder(&self, repo: &str) -> PathBuf {
        self.root.join(format!("models--{}", repo.replace('/', "--")))
    }

    /// Looks up the revision of a name.
    ///
    /// # Errors
    /// If it is not there, or a file of the cache is damaged.
    pub(super) fn find<'n>(&self, name: &'n HubName) -> Result<Snapshot<'n>, Error> {
        let repo = self.folder(&name.repo);
        let absent = |what: &str| {
            Err(name.absent(&format!("the Hugging Face cache {} {what}", self.root.display())))
        };
        if !repo.is_dir() {
            return absent("does not hold it");
        }
        let revision = name.revision();
        let commit = match read_ref(&repo.join("refs").join(revision))? {
            Some(commit) => commit,
            None if is_commit(revision) => revision.to_owned(),
            None => {
                let short = revision.len() >= LEAST_DIGITS && revision.chars().all(is_digit);
                let hint = if short { ": a commit is spelled with all its 40 digits" } else { "" };
                return absent(&format!("holds no revision {revision} of it{hint}"));
            }
        };
        let snapshot = Snapshot { name, repo, shared: self.root.join("blobs"), commit };
        if !snapshot.folder().is_dir() {
            let commit = &snapshot.commit;
            return absent(&format!("holds no file of its revision {revision} (commit {commit})"));
        }
        Ok(snapshot)
    }

    /// The names of all that it holds: every repository by its branches and tags, and by
    /// those commits that none of them names.
    pub(super) fn names(&self) -> Vec<HubName> {
        let mut names = Vec::new();
        for folder in entries(&self.root) {
            let Some(repo) = folder.strip_prefix("models--") else { continue };
            let repo = repo.replacen("--", "/", 1);
            names.extend(self.revisions(&repo).iter().filter_map(|r| HubName::of(&repo, r)));
        }
        names
    }

    fn revisions(&self, repo: &str) -> Vec<String> {
        let folder = self.folder(repo);
        let mut revisions = paths_below(&folder.join("refs"));
        revisions.sort_by_key(|revision| (revision != DEFAULT_REVISION, revision.clone()));
        let commits =
            revisions.iter().filter_map(|r| read_ref(&folder.join("refs").join(r)).ok()?);
        let named = commits.collect::<Vec<_>>();
        let commits = entries(&folder.join("snapshots"));
        revisions.extend(commits.into_iter().filter(|c| is_commit(c) && !named.contains(c)));
        revisions
    }
}

/// The folder that a variable names, where `~` stands for the home; none if it is empty.
fn folder_of(value: OsString, home: Option<&Path>) -> Option<PathBuf> {
    let path = PathBuf::from(value);
    match (path.strip_prefix("~"), home) {
        _ if path.as_os_str().is_empty() => None,
        (Ok(rest), Some(home)) => Some(home.join(rest)),
        _ => Some(path),
    }
}

/// The commit in a file of `refs/`; none if there is no such file.
fn read_ref(file: &Path) -> Result<Option<String>, Error> {
    match fs::metadata(file) {
        Ok(found) if found.is_file() && found.len() <= MOST_REF => {}
        Ok(found) if found.is_file() => return Err(Error::file(file, "does not hold a commit")),
        _ => return Ok(None),
    }
    let text = fs::read_to_string(file).map_err(|e| Error::file(file, e))?;
    let commit = text.trim();
    if !is_commit(commit) {
        return Err(Error::file(file, "does not hold a commit of 40 hexadecimal digits"));
    }
    Ok(Some(commit.to_owned()))
}

/// Whether this is a whole commit.
fn is_commit(text: &str) -> bool {
    text.len() == COMMIT_DIGITS && text.chars().all(is_digit)
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || ('a'..='f').contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(variables: &[(&str, &str)], home: Option<&str>) -> Option<String> {
        let value = |key: &str| variables.iter().find(|(k, _)| *k == key).map(|(_, v)| v.into());
        let cache = HubCache::of(&value, home.map(PathBuf::from))?;
        Some(cache.root.to_str().unwrap_or_default().to_owned())
    }

    #[test]
    fn the_cache_is_where_the_tools_of_the_hub_have_it() {
        let all = [
            ("HF_HUB_CACHE", "/hub-cache"),
            ("HUGGINGFACE_HUB_CACHE", "/older"),
            ("HF_HOME", "/hf"),
            ("XDG_CACHE_HOME", "/xdg"),
        ];
        let wanted = ["/hub-cache", "/older", "/hf/hub", "/xdg/huggingface/hub"];
        for (i, wanted) in wanted.iter().enumerate() {
            assert_eq!(root(&all[i..], Some("/me")).as_deref(), Some(*wanted));
            // An empty variable is none.
            let mut emptied = all.to_vec();
            for (_, value) in &mut emptied[..i] {
                *value = "";
            }
            assert_eq!(root(&emptied, Some("/me")).as_deref(), Some(*wanted));
        }
        assert_eq!(root(&[], Some("/me")).as_deref(), Some("/me/.cache/huggingface/hub"));
        assert_eq!(root(&[("HF_HOME", "~/hf")], Some("/me")).as_deref(), Some("/me/hf/hub"));
        assert_eq!((root(&[], None), root(&[], Some(""))), (None, None));
    }
}
