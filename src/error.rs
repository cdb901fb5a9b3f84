//! The one error of the library.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::distribution::DistError;
use crate::params::BadParam;
use crate::registry::UnknownName;

/// Why something could not be done, sorted by what a caller can do about it. The text is
/// one sentence that names what is at fault and, where there is a choice, the allowed
/// values.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// No registry has this name: use one of the allowed names.
    #[error(transparent)]
    Name(#[from] UnknownName),
    /// A setting is out of its range: use an allowed value.
    #[error(transparent)]
    Value(#[from] BadParam),
    /// Settings or methods do not go together, or need something that was not given:
    /// change the settings.
    #[error("{0}")]
    Setting(String),
    /// A file is missing, unreadable or damaged: mend it, or name another.
    #[error("{}: {why}", file.display())]
    File {
        /// The file or folder.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A prompt or a context that this model cannot take, or two models that do not
    /// belong together: give other input.
    #[error("{0}")]
    Input(String),
    /// Logits or weights define no probability distribution: the model is at fault.
    #[error("{of}: {why}")]
    Distribution {
        /// Whose logits or weights they are.
        of: String,
        /// What is wrong with them.
        why: DistError,
    },
    /// The engine could not do its work, for want of memory or of a device, or because
    /// it was used against its contract.
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

    /// [`Error::Distribution`] from its cause; `of` says whose logits or weights they are.
    pub fn distribution(of: impl Into<String>) -> impl FnOnce(DistError) -> Self {
        |why| Self::Distribution { of: of.into(), why }
    }

    /// [`Error::Engine`] with this sentence.
    pub fn engine(sentence: impl Into<String>) -> Self {
        Self::Engine(sentence.into())
    }
}

/// The same sentence without its middle if it is very long: parsers quote what they found,
/// and a file may hold texts of any length.
fn shortened(why: &str) -> String {
    const KEPT: usize = 200;
    let characters = why.chars().count();
    if characters <= 3 * KEPT {
        return why.to_owned();
    }
    let begin = why.chars().take(KEPT).collect::<String>();
    begin + " … " + &why.chars().skip(characters - KEPT).collect::<String>()
}
