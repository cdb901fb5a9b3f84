//! Names of models on the Hugging Face hub: `owner/name`, `owner/name@revision`,
//! `owner/name:file.gguf` and `owner/name:Q4_K_M`.
//!
//! Every part of a name becomes part of a path, so what is allowed is listed, not what is
//! forbidden: no name leads out of the folder in which it is looked up.

use std::fmt;

use crate::checkpoint::layout::is_gguf;
use crate::core::error::Error;

/// The revision of a name without one.
pub(super) const DEFAULT_REVISION: &str = "main";
/// The longest allowed `owner/name`, as on the hub.
const MOST_REPO: usize = 96;
/// The longest allowed revision or file.
const MOST_PATH: usize = 255;
/// What a revision and the path of a file consist of.
const PATH_CHARACTERS: &str = "letters, digits and . _ - + / without empty parts or \"..\"";

/// A model on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubName {
    /// `owner/name`.
    pub(super) repo: String,
    revision: Option<String>,
    /// None if the folder is meant.
    pub(super) file: Option<HubFile>,
}

/// The GGUF file of a repository that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HubFile {
    /// The file at this path.
    Path(String),
    /// The only file whose name has this quantisation.
    Quantisation(String),
}

impl HubName {
    /// The name that a text spells; `None` if it does not begin with `owner/name`.
    ///
    /// # Errors
    /// If what follows `owner/name` is neither a revision nor a GGUF file.
    pub fn parse(text: &str) -> Result<Option<Self>, Error> {
        let end = text.find(['@', ':']).unwrap_or(text.len());
        let (repo, rest) = text.split_at(end);
        if !is_repo(repo) {
            return Ok(None);
        }
        let fail = |what: String| Error::setting(format!("model {text}: {what}"));
        let (revision, file) = match rest.strip_prefix('@') {
            Some(rest) => match rest.split_once(':') {
                Some((revision, file)) => (Some(revision), Some(file)),
                None => (Some(rest), None),
            },
            None => (None, rest.strip_prefix(':')),
        };
        if let Some(revision) = revision.filter(|revision| !is_plain_path(revision)) {
            let what = format!("\"{revision}\" is no branch, tag or commit: allowed are");
            return Err(fail(format!("{what} {PATH_CHARACTERS}")));
        }
        let file = file.map(|file| HubFile::parse(file).map_err(fail)).transpose()?;
        Ok(Some(Self { repo: repo.to_owned(), revision: revision.map(str::to_owned), file }))
    }

    /// A repository at a revision, as found in a cache; `None` if no name can spell it.
    pub(super) fn of(repo: &str, revision: &str) -> Option<Self> {
        let revision = (revision != DEFAULT_REVISION).then(|| revision.to_owned());
        let plain = revision.as_deref().is_none_or(is_plain_path);
        (is_repo(repo) && plain).then(|| Self { repo: repo.to_owned(), revision, file: None })
    }

    /// One of its files.
    pub(super) fn with_file(self, path: &str) -> Self {
        Self { file: Some(HubFile::Path(path.to_owned())), ..self }
    }

    /// The branch, tag or commit.
    pub(super) fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or(DEFAULT_REVISION)
    }

    /// The command of the hub's own tool that downloads it.
    fn command(&self) -> String {
        let mut command = format!("hf download {}", self.repo);
        match &self.file {
            Some(HubFile::Path(path)) => command += &format!(" {path}"),
            Some(HubFile::Quantisation(tag)) => command += &format!(" --include '*{tag}*.gguf'"),
            None => {}
        }
        if let Some(revision) = &self.revision {
            command += &format!(" --revision {revision}");
        }
        command
    }

    /// The error for a model that is not in the cache, or not all of it.
    pub(super) fn absent(&self, why: &str) -> Error {
        let command = self.command();
        Error::setting(format!(
            "model {self}: there is no such folder, and {why}: `{command}` downloads it"
        ))
    }
}

impl fmt::Display for HubName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repo)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{revision}")?;
        }
        match &self.file {
            Some(HubFile::Path(file) | HubFile::Quantisation(file)) => write!(f, ":{file}"),
            None => Ok(()),
        }
    }
}

impl HubFile {
    fn parse(text: &str) -> Result<Self, String> {
        if is_gguf(text) && is_plain_path(text) {
            Ok(Self::Path(text.to_owned()))
        } else if text.ends_with(".safetensors") {
            Err(format!(
                "\"{text}\" is no GGUF file: without it, the name means the folder, which is read \
                 whole"
            ))
        } else if !is_gguf(text) && is_plain_path(text) && !text.contains('/') {
            Ok(Self::Quantisation(text.to_owned()))
        } else {
            Err(format!(
                "\"{text}\" is neither a GGUF file nor a quantisation such as Q4_K_M: allowed are \
                 {PATH_CHARACTERS}"
            ))
        }
    }
}

/// Whether this is a relative path that stays below its folder on every system.
pub(super) fn is_plain_path(path: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    let part = |part: &str| !part.is_empty() && part.chars().all(plain) && part != ".";
    path.len() <= MOST_PATH && !path.contains("..") && path.split('/').all(part)
}

/// Whether this is `owner/name`, by the rules of the hub.
fn is_repo(repo: &str) -> bool {
    let part = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        !part.is_empty()
            && part.chars().all(plain)
            && !part.starts_with(['.', '-'])
            && !part.ends_with(['.', '-'])
    };
    let parts = repo.split_once('/').is_some_and(|(owner, name)| part(owner) && part(name));
    // "--" separates the parts in the name of a cache's folder.
    let joint = repo.contains("--") || repo.contains("..") || repo.ends_with(".git");
    parts && !joint && repo.len() <= MOST_REPO
}
