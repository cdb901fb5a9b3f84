//! Files of a model's folder that are read as a whole.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::checkpoint::files::{open, unreadable};
use crate::core::error::Error;
use crate::io::input::{foreign, read_whole};

/// A file that is read once and as a whole, so the bytes that are used are the bytes
/// that are hashed.
#[derive(Debug)]
pub(in crate::checkpoint) struct Text {
    pub(in crate::checkpoint) file: PathBuf,
    pub(in crate::checkpoint) bytes: Vec<u8>,
}

impl Text {
    /// Reads a file.
    ///
    /// # Errors
    /// If it is missing, not a regular file, or larger than 256 MiB.
    pub(in crate::checkpoint) fn read(file: PathBuf) -> Result<Self, Error> {
        let bytes = read_whole(open(&file)?.from(0)).map_err(|e| unreadable(&file, &e))?;
        Ok(Self { file, bytes })
    }

    /// The content as JSON.
    pub(in crate::checkpoint) fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.bytes).map_err(|error| {
            if let Some(what) = foreign(&self.bytes) {
                return self.fault(what);
            }
            let place = self.culprit::<T>().map_or_else(String::new, |key| format!("{key}: "));
            let [whole, any] = ["a whole number >= 0", "a number"];
            let numbers = [("usize", whole), ("u32", whole), ("f64", any)];
            let what = numbers.iter().fold(error.to_string(), |what, (kind, words)| {
                what.replace(&format!("expected {kind}"), &format!("expected {words}"))
            });
            self.fault(place + &what)
        })
    }

    /// The key whose value has the wrong type: removing it removes or changes the
    /// error.
    fn culprit<T: DeserializeOwned>(&self) -> Option<String> {
        let object = serde_json::from_slice::<Map<String, Value>>(&self.bytes).ok()?;
        let error = |object: Map<String, Value>| {
            serde_json::from_value::<T>(object.into()).err().map(|e| e.to_string())
        };
        let whole = error(object.clone())?;
        let without = |key: &&String| {
            let mut rest = object.clone();
            rest.remove(key.as_str());
            error(rest)
        };
        object.keys().find(|key| without(key).as_ref() != Some(&whole)).cloned()
    }

    /// Adds name and content to a hash; the folder of the file has no effect.
    pub(in crate::checkpoint) fn add_to(&self, hash: &mut Sha256) {
        add_name(hash, &self.file);
        hash.update((self.bytes.len() as u64).to_le_bytes());
        hash.update(&self.bytes);
    }

    /// The error for a fault in this file.
    pub(super) fn fault(&self, what: impl AsRef<str>) -> Error {
        Error::file(&self.file, what.as_ref())
    }
}

/// Adds the name of a file to a hash.
pub(super) fn add_name(hash: &mut Sha256, file: &Path) {
    hash.update(file.file_name().unwrap_or_default().as_encoded_bytes());
}
