//! Downloads a model from the Hugging Face hub into its cache, in the layout of the hub's
//! own tools, which can share it.
//!
//! The published clients bring an asynchronous runtime and over two hundred crates, or
//! check neither lengths nor hashes. So this is the hub's protocol on an HTTP client: one
//! request lists the files of a commit, one per file asks for its length and hash, and its
//! content comes in as many requests as the connection needs.

mod blob;
mod client;
mod failure;
mod place;
mod promise;

use serde::Deserialize;

use self::blob::Blob;
use self::client::Client;
use super::cache::{HubCache, is_commit};
use super::gguf;
use super::name::{HubName, is_plain_path};
use super::snapshot::{NEEDED, WEIGHTS};
use crate::error::Error;
use crate::model::hf::weight_files;
use crate::model::layout::is_gguf;
use crate::terminal::{self, Progress};

/// Files of a model that are downloaded where a repository has them.
const OPTIONAL: [&str; 4] = [
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
];
/// Bytes of the unit in which progress is shown.
const MEGABYTE: u64 = 1_000_000;

/// A commit of a repository, as the hub describes it.
#[derive(Debug, Deserialize)]
struct Revision {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Debug, Deserialize)]
struct Sibling {
    rfilename: String,
}

/// A download in progress.
struct Download<'d> {
    client: Client,
    cache: &'d HubCache,
    name: &'d HubName,
    /// The commit.
    commit: String,
    /// All files of the repository whose paths a cache can have.
    paths: Vec<String>,
}

/// Whether the environment forbids requests.
pub(super) fn is_offline() -> bool {
    let on = |key| std::env::var(key).is_ok_and(|v| is_true(&v));
    on("HF_HUB_OFFLINE") || on("TRANSFORMERS_OFFLINE")
}

fn is_true(value: &str) -> bool {
    ["1", "on", "yes", "true"].contains(&value.to_ascii_lowercase().as_str())
}

/// Downloads what the cache lacks of a model. What is there is kept; a partial file is
/// continued.
///
/// # Errors
/// If the hub does not have it or cannot be reached, or the cache cannot be written to.
pub(super) fn download(cache: &HubCache, name: &HubName) -> Result<(), Error> {
    let client = Client::of_environment()?;
    let fail = |what: String| fault(name, &client, &what);
    let revision = client.revision(name.repo(), name.revision());
    let Revision { sha, siblings } = revision.map_err(fail)?;
    if !is_commit(&sha) {
        return Err(fail(format!("it calls revision {} \"{sha}\"", name.revision())));
    }
    let paths = siblings.into_iter().map(|file| file.rfilename);
    let paths = paths.filter(|path| is_plain_path(path)).collect();
    terminal::say(format_args!(
        "downloading {name} (commit {}) into {}",
        &sha[..12],
        cache.root().display()
    ));
    let download = Download { client, cache, name, commit: sha, paths };
    match name.file() {
        Some(_) => download.gguf()?,
        None => download.folder()?,
    }
    place::refer(&cache.folder(name.repo()), name.revision(), &download.commit)
}

/// The error for a model that cannot be downloaded.
fn fault(name: &HubName, client: &Client, what: &str) -> Error {
    let endpoint = client.endpoint();
    Error::setting(format!("model {name}: cannot be downloaded from {endpoint}: {what}"))
}

impl Download<'_> {
    fn gguf(&self) -> Result<(), Error> {
        let ggufs = self.paths.iter().filter(|path| is_gguf(path)).cloned().collect::<Vec<_>>();
        let Some(file) = self.name.file() else { return Ok(()) };
        match gguf::choose(&ggufs, file).map_err(|what| self.fault(&what))? {
            Some(shards) => self.fetch(&shards),
            None => Err(self.fault(&gguf::none(&ggufs, file))),
        }
    }

    /// The small files first: one of them may list the others.
    fn folder(&self) -> Result<(), Error> {
        let has = |file: &&str| self.paths.iter().any(|path| path == file);
        let weights = WEIGHTS.iter().find(|file| has(file)).copied();
        let missing = NEEDED.iter().find(|file| !has(file)).copied();
        let weights = match (missing, weights) {
            (None, Some(weights)) => weights,
            (file, _) => return Err(self.lacks(file.unwrap_or(WEIGHTS[0]))),
        };
        let whole = weights == WEIGHTS[0];
        let small = NEEDED.into_iter().chain(OPTIONAL).chain((!whole).then_some(weights));
        self.fetch(&small.filter(has).map(str::to_owned).collect::<Vec<_>>())?;
        if whole {
            return self.fetch(&[weights.to_owned()]);
        }
        let folder = place::snapshot(&self.cache.folder(self.name.repo()), &self.commit);
        let files = weight_files(&folder)?;
        let names = files.iter().filter_map(|file| file.file_name()?.to_str());
        let names = names.map(str::to_owned).collect::<Vec<_>>();
        match names.iter().find(|file| !has(&file.as_str())) {
            Some(file) => Err(self.lacks(file)),
            None => self.fetch(&names),
        }
    }

    fn lacks(&self, file: &str) -> Error {
        let ggufs = self.paths.iter().filter(|path| is_gguf(path)).map(String::as_str);
        let ggufs = ggufs.collect::<Vec<_>>();
        match &ggufs[..] {
            [] => self.fault(&format!("the repository has no {file}")),
            ggufs => self.fault(&format!(
                "the repository has no {file}, but GGUF files: add one to the name, as in :{}",
                ggufs.join(" or :")
            )),
        }
    }

    /// Downloads files that the repository has, and links them into the snapshot.
    fn fetch(&self, paths: &[String]) -> Result<(), Error> {
        let promise = |path: &String| {
            let promise = self.client.promise(self.name.repo(), &self.commit, path);
            promise.map_err(|what| self.fault(&what))
        };
        let promises = paths.iter().map(promise).collect::<Result<Vec<_>, _>>()?;
        let (root, repo) = (self.cache.root(), self.cache.folder(self.name.repo()));
        let blobs = promises.iter().map(|promise| Blob { root, repo: &repo, promise });
        let blobs = blobs.collect::<Vec<_>>();
        let size = |blob: &Blob<'_>| blob.promise.size.unwrap_or(0);
        let megabytes = |bytes: u64| (bytes / MEGABYTE) as usize;
        let total = megabytes(blobs.iter().map(size).sum());
        let there = megabytes(blobs.iter().map(Blob::length).sum());
        let mut progress = Progress::new("MB", total, there);
        let mut before = 0;
        for (path, blob) in paths.iter().zip(&blobs) {
            let url = self.client.url_of(self.name.repo(), &self.commit, path);
            let mut reached = |done| progress.reach(megabytes(before + done), total, path);
            blob.obtain(&self.client, &url, &mut reached)
                .map_err(|failed| failed.explain(|what| self.fault(&format!("{path}: {what}"))))?;
            place::link(&repo, &self.commit, path, &blob.promise.etag)?;
            before += size(blob);
        }
        Ok(())
    }

    fn fault(&self, what: &str) -> Error {
        fault(self.name, &self.client, what)
    }
}
