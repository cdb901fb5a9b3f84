//! The one error of the library.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::core::distribution::DistError;
use crate::core::params::BadParam;
use crate::core::registry::UnknownName;

/// The reason of a failure, classified by what a caller can do about it. The message is one
/// sentence that names the cause and, where there is a choice, the allowed values.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// No registry has this name: use one of the allowed names.
    #[error(transparent)]
    Name(#[from] UnknownName),
    /// A setting is out of its range: use an allowed value.
    #[error(transparent)]
    Value(#[from] BadParam),
    /// Settings or methods are incompatible, or need something that was not given: change the
    /// settings.
    #[error("{0}")]
    Setting(String),
    /// A file is missing, unreadable or damaged: repair it, or name another.
    #[error("{}: {why}", file.display())]
    File {
        /// The file or folder.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A prompt or a context that the model cannot take, or two incompatible models: give other
    /// input.
    #[error("{0}")]
    Input(String),
    /// Logits or weights that do not define a probability distribution: the model is faulty.
    #[error("{of}: {why}")]
    Distribution {
        /// The source of the logits or weights.
        of: String,
        /// What is wrong with them.
        why: DistError,
    },
    /// The engine failed, because of missing memory or a missing device, or because its contract
    /// was violated.
    #[error("{0}")]
    Engine(String),
}

impl Error {
    /// [`Error::Setting`] with this sentence.
    pub fn setting(sentence: impl Into<String>) -> Self {
        Self::Setting(sentence.into())
    }

    /// [`Error::File`]: what is wrong with `file`.
    pub fn file(file: &Path, why: impl ToString) -> Self {
        Self::File { file: file.to_owned(), why: shortened(&why.to_string()) }
    }

    /// [`Error::Input`] with this sentence.
    pub fn input(sentence: impl Into<String>) -> Self {
        Self::Input(sentence.into())
    }

    /// [`Error::Distribution`] from its cause; `of` names the source of the logits or weights.
    pub fn distribution(of: impl Into<String>) -> impl FnOnce(DistError) -> Self {
        |why| Self::Distribution { of: of.into(), why }
    }

    /// [`Error::Engine`] with this sentence.
    pub fn engine(sentence: impl Into<String>) -> Self {
        Self::Engine(sentence.into())
    }
}

/// The sentence without its middle if it is very long: parsers quote their input, which may have
/// any length.
fn shortened(why: &str) -> String {
    const KEPT: usize = 200;
    let characters = why.chars().count();
    if characters <= 3 * KEPT {
        return why.to_owned();
    }
    let begin = why.chars().take(KEPT).collect::<String>();
    begin + " … " + &why.chars().skip(characters - KEPT).collect::<String>()
}
