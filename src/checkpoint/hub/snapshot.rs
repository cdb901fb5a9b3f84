//! One commit of a repository in the cache: which of its files are there, whole, and where
//! a cache may keep them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::gguf;
use super::name::{HubFile, HubName};
use super::walk::paths_below;
use crate::checkpoint::hf::weight_files;
use crate::checkpoint::layout::{self, NEEDED, WEIGHTS, is_gguf};
use crate::core::error::Error;

/// Ends of the names of files that loaders read.
const READ: [&str; 3] = [".json", ".jinja", ".safetensors"];

/// The commit of a repository that a name means.
#[derive(Debug)]
pub(super) struct Snapshot<'n> {
    pub(super) name: &'n HubName,
    /// The folder of the repository.
    pub(super) repo: PathBuf,
    /// Where several repositories keep equal files.
    pub(super) shared: PathBuf,
    pub(super) commit: String,
}

impl Snapshot<'_> {
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

    /// Where the model is that the name means: a GGUF file, or the folder.
    ///
    /// # Errors
    /// If a file of it is missing, a link leads out of the cache, several GGUF files match, or
    /// only GGUF files are there and none was named.
    pub(super) fn model(&self) -> Result<PathBuf, Error> {
        match &self.name.file {
            Some(file) => self.gguf(file),
            None => self.whole(),
        }
    }

    fn gguf(&self, file: &HubFile) -> Result<PathBuf, Error> {
        let (folder, paths) = (self.folder(), self.gguf_files());
        let shards = gguf::choose(&paths, file).map_err(|what| Error::file(&folder, what))?;
        let shards = shards.ok_or_else(|| self.lacks(&gguf::none(&paths, file)))?;
        for shard in &shards {
            self.check(shard)?;
        }
        Ok(shards.first().map_or_else(|| folder.clone(), |first| folder.join(first)))
    }

    fn whole(&self) -> Result<PathBuf, Error> {
        let folder = self.folder();
        let paths = paths_below(&folder);
        let is_there = |file: &&str| paths.iter().any(|path| path == file);
        let ggufs = self.gguf_files();
        if !WEIGHTS.iter().any(&is_there) && !ggufs.is_empty() {
            let what = "holds GGUF files: add the one that is meant to the name, as in";
            return Err(Error::file(&folder, format!("{what} :{}", ggufs.join(" or :"))));
        }
        let read = |path: &&String| READ.iter().any(|end| path.ends_with(end));
        for path in paths.iter().filter(|path| !path.contains('/')).filter(read) {
            self.check(path)?;
        }
        if let Some(missing) = layout::missing(&paths) {
            // What lies there in another format than ours, its loader explains better.
            return match layout::instead(missing, &paths, &folder) {
                Some(_) => Ok(folder),
                None => Err(self.lacks(&format!("{missing} is missing"))),
            };
        }
        for files in NEEDED {
            if let Some(file) = files.iter().find(|file| is_there(file)) {
                self.check(file)?;
            }
        }
        for file in &weight_files(&folder)? {
            self.check(file)?;
        }
        Ok(folder)
    }

    /// Checks that a file is there with its content, and that no link leads out of the cache.
    fn check(&self, path: &str) -> Result<(), Error> {
        let file = self.folder().join(path);
        let real = match fs::canonicalize(&file) {
            Ok(real) => real,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let link = file.symlink_metadata().is_ok();
                let what = if link { "has lost its content" } else { "is missing" };
                return Err(self.lacks(&format!("{path} {what}")));
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
        Ok(())
    }

    fn lacks(&self, what: &str) -> Error {
        self.name.absent(&format!("{what} in {}", self.folder().display()))
    }
}
