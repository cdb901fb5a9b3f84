//! One commit of a repository in the cache: which of its files are there, whole, and where
//! a cache may keep them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::gguf;
use super::name::HubFile;
use super::walk::paths_below;
use crate::error::Error;
use crate::model::hf::weight_files;
use crate::model::layout::is_gguf;

/// The files without which there is no model, besides its weights.
const NEEDED: [&str; 2] = ["config.json", "tokenizer.json"];
/// The weights: whole, or the list of their shards.
const WEIGHTS: [&str; 2] = ["model.safetensors", "model.safetensors.index.json"];
/// Ends of the names of files that loaders read.
const READ: [&str; 3] = [".json", ".jinja", ".safetensors"];

/// A commit of a repository.
#[derive(Debug)]
pub(super) struct Snapshot {
    repo: PathBuf,
    /// Where several repositories keep equal files.
    shared: PathBuf,
    commit: String,
}

/// What a snapshot has of the model that a name means.
#[derive(Debug)]
pub(super) enum Holding {
    /// All of it, at this path.
    Whole(PathBuf),
    /// Not all: a clause says what is missing.
    Partly(String),
}

impl Snapshot {
    /// A commit of the repository in the folder `repo`.
    pub(super) fn new(repo: PathBuf, shared: PathBuf, commit: String) -> Self {
        Self { repo, shared, commit }
    }

    /// The commit.
    pub(super) fn commit(&self) -> &str {
        &self.commit
    }

    /// The folder with its files.
    pub(super) fn folder(&self) -> PathBuf {
        self.repo.join("snapshots").join(&self.commit)
    }

    /// The paths of its GGUF files.
    pub(super) fn gguf_files(&self) -> Vec<String> {
        let mut paths = paths_below(&self.folder());
        paths.retain(|path| is_gguf(path));
        paths
    }

    /// Where it holds a GGUF file, or the folder of the model.
    ///
    /// # Errors
    /// If a link leads out of the cache, several GGUF files match, or only GGUF files are
    /// there and none was named.
    pub(super) fn holds(&self, file: Option<&HubFile>) -> Result<Holding, Error> {
        match file {
            Some(file) => self.holds_gguf(file),
            None => self.holds_folder(),
        }
    }

    fn holds_gguf(&self, file: &HubFile) -> Result<Holding, Error> {
        let paths = self.gguf_files();
        let shards = match gguf::choose(&paths, file) {
            Ok(Some(shards)) => shards,
            Ok(None) => return Ok(self.lacks(&gguf::none(&paths, file))),
            Err(what) => return Err(Error::file(&self.folder(), what)),
        };
        for shard in &shards {
            if let Some(what) = self.fault_of(shard)? {
                return Ok(self.lacks(&what));
            }
        }
        Ok(Holding::Whole(shards.first().map_or_else(|| self.folder(), |f| self.folder().join(f))))
    }

    fn holds_folder(&self) -> Result<Holding, Error> {
        let folder = self.folder();
        let paths = paths_below(&folder);
        let is_there = |file: &&str| paths.iter().any(|path| path == file);
        let ggufs = paths.iter().filter(|path| is_gguf(path)).map(String::as_str);
        let ggufs = ggufs.collect::<Vec<_>>();
        if !WEIGHTS.iter().any(&is_there) && !ggufs.is_empty() {
            let what = "holds GGUF files: add the one that is meant to the name, as in";
            return Err(Error::file(&folder, format!("{what} :{}", ggufs.join(" or :"))));
        }
        let read = |path: &&String| READ.iter().any(|end| path.ends_with(end));
        for path in paths.iter().filter(|path| !path.contains('/')).filter(read) {
            if let Some(what) = self.fault_of(path)? {
                return Ok(self.lacks(&what));
            }
        }
        // What lies there in another format than ours, its loader explains better.
        let stands_in = |ends: &[&str]| paths.iter().any(|p| ends.iter().any(|e| p.ends_with(e)));
        if stands_in(&["tokenizer.model", ".bin", ".pth"]) {
            return Ok(Holding::Whole(folder));
        }
        let weights = WEIGHTS.iter().find(|file| is_there(file));
        let missing = NEEDED.iter().find(|file| !is_there(file));
        if let Some(file) = missing.or(weights.is_none().then_some(&WEIGHTS[0])) {
            return Ok(self.lacks(&format!("{file} is missing")));
        }
        for file in weight_files(&folder)? {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if let Some(what) = self.fault_of(&name)? {
                return Ok(self.lacks(&what));
            }
        }
        Ok(Holding::Whole(folder))
    }

    /// What is wrong with a file: it is missing, or its blob is.
    ///
    /// # Errors
    /// If it is a link that leads out of the cache, or no regular file.
    fn fault_of(&self, path: &str) -> Result<Option<String>, Error> {
        let file = self.folder().join(path);
        let real = match fs::canonicalize(&file) {
            Ok(real) => real,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let link = file.symlink_metadata().is_ok();
                let what = if link { "has lost its content" } else { "is missing" };
                return Ok(Some(format!("{path} {what}")));
            }
            Err(e) => return Err(Error::file(&file, format!("cannot be read: {e}"))),
        };
        let inside = |folder: &Path| fs::canonicalize(folder).is_ok_and(|f| real.starts_with(f));
        if !inside(&self.repo) && !inside(&self.shared) {
            let what = "is a link that leads out of its repository's folder";
            return Err(Error::file(&file, what));
        }
        if !real.is_file() {
            return Err(Error::file(&file, "not a regular file"));
        }
        Ok(None)
    }

    fn lacks(&self, what: &str) -> Holding {
        Holding::Partly(format!("{what} in {}", self.folder().display()))
    }
}
