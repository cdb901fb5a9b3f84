//! A GGUF file as a Hugging Face checkpoint: its configuration, and its tensors by the
//! names and in the row order of transformers.

use std::ops::Range;
use std::path::Path;

use serde_json::{Map, Value};

use super::architecture::Architecture;
use super::config::config;
use super::file::GgufFile;
#[cfg(feature = "harness")]
use super::header::StoredTensor;
use super::keys::Keys;
use super::names::{Heads, RowsOf, rows_of};
use super::sizes::Sizes;
#[cfg(feature = "harness")]
use crate::checkpoint::ModelSummary;
use crate::core::error::Error;
use crate::engine::Dtype;
use crate::engine::blocks::{RawRows, TensorKind};
use crate::engine::decoder::Tensors;

/// A GGUF file as a Hugging Face checkpoint.
///
/// Tensors have the names and the order of rows that transformers gives them: where files
/// keep rotary pairs of queries and keys side by side, rows are put back in order.
#[derive(Debug)]
pub struct GgufCheckpoint {
    file: GgufFile,
    architecture: &'static Architecture,
    heads: Heads,
    config: Map<String, Value>,
}

impl GgufCheckpoint {
    /// Opens a file, or all parts of a split one, of which `path` is any.
    ///
    /// # Errors
    /// One sentence that names the file and the key or tensor at fault: the file is
    /// damaged, holds an architecture or a feature that is not supported, or its metadata
    /// contradict its tensors.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let file = GgufFile::open(path)?;
        let architecture = Architecture::of(file.metadata())?;
        let keys = Keys { file: &file, architecture };
        let sizes = Sizes::read(keys)?;
        let (config, heads) = (config(keys, &sizes)?, sizes.heads);
        Ok(Self { file, architecture, heads, config })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &GgufFile {
        &self.file
    }

    /// The keys that matter of the `config.json` that transformers would write.
    ///
    /// Two of them are not of transformers: `rope_parameters` may have the `rope_type` `factors`,
    /// with a list `factors` of the divisors of all frequencies; and `sliding_window_past` says of
    /// a block drafter that windows leave out no later row of the block.
    #[must_use]
    pub fn config(&self) -> &Map<String, Value> {
        &self.config
    }

    /// Whether weights of norms include the 1 that the models of some families add to them.
    #[must_use]
    pub fn norms_are_complete(&self) -> bool {
        self.architecture.norms_are_complete
    }

    /// Whether it is a head, which drafts from hidden states of a target.
    #[must_use]
    pub fn is_head(&self) -> bool {
        self.architecture.head.is_some()
    }

    /// Whether there is a tensor of this name.
    pub(in crate::checkpoint) fn has(&self, name: &str) -> bool {
        self.rows_of(name).is_some_and(|rows| self.file.tensor(&rows.tensor).is_some())
    }

    /// Checks that there is a tensor of this name and shape.
    ///
    /// # Errors
    /// If it is missing or has another shape; the sentence names file and tensor.
    pub fn check(&self, name: &str, shape: &[usize]) -> Result<(), Error> {
        self.find(name, shape).map(drop)
    }

    /// How a tensor is stored, if there is one of this name.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<TensorKind> {
        self.file.tensor(&self.rows_of(name)?.tensor)?.kind()
    }

    /// A tensor in f32, row by row.
    ///
    /// # Errors
    /// As [`Self::check`], and if it holds NaN or infinite weights or cannot be read.
    pub fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let rows = self.find(name, shape)?;
        let width = shape[1..].iter().product::<usize>();
        let weights = self.file.weights_of(&rows.tensor, rows.entries(width))?;
        Ok(rows.arrange(weights, width))
    }

    /// A tensor as it is stored, row by row.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn raw(&self, name: &str, shape: &[usize]) -> Result<RawRows, Error> {
        let rows = self.find(name, shape)?;
        let tensor = &rows.tensor;
        let kind = self.kind(name).ok_or_else(|| self.file.missing(tensor))?;
        let width = shape[1..].iter().product::<usize>();
        if !rows.are_all_in_order() && !width.is_multiple_of(kind.length()) {
            let what =
                format!("tensor {tensor} of type {} has several rows in a block", kind.name());
            return Err(self.file.fault(tensor, what));
        }
        let blocks = self.file.blocks_of(tensor, rows.entries(width))?;
        let blocks = rows.arrange(blocks, width / kind.length() * kind.bytes());
        Ok(RawRows { kind, blocks })
    }

    /// The distance of each token of a head to the target's token that it stands for, as in a
    /// Hugging Face checkpoint; files have the target's tokens themselves.
    ///
    /// # Errors
    /// As [`Self::check`], and if it holds no whole numbers or cannot be read.
    pub(in crate::checkpoint) fn offsets(
        &self,
        name: &str,
        length: usize,
    ) -> Result<Vec<i64>, Error> {
        let tokens = self.file.integers(&self.find(name, &[length])?.tensor)?;
        let offset = |(own, token): (usize, i64)| token.saturating_sub(own as i64);
        Ok(tokens.into_iter().enumerate().map(offset).collect())
    }

    /// SHA-256 of all headers and of the tensors that were read so far; the factors of
    /// rotary embeddings are among them.
    ///
    /// # Errors
    /// If a file was changed since it was opened.
    pub fn sha256(&self) -> Result<String, Error> {
        self.file.sha256()
    }

    /// Its tensors in a few numbers.
    #[cfg(feature = "harness")]
    pub(in crate::checkpoint) fn tensor_summary(&self) -> ModelSummary {
        let stored = || self.file().tensors().map(|(_, tensor)| tensor);
        let tensors = stored().filter_map(|tensor| {
            let number = tensor.shape().iter().product::<usize>();
            Some((tensor.kind()?.name().to_owned(), number as u64))
        });
        let bytes = stored().map(StoredTensor::bytes).sum();
        ModelSummary { bytes, ..ModelSummary::of_tensors(tensors) }
    }

    fn rows_of(&self, name: &str) -> Option<RowsOf> {
        rows_of(&self.file, self.architecture, self.heads, name)
    }

    fn find(&self, name: &str, shape: &[usize]) -> Result<RowsOf, Error> {
        let model = self.architecture.name;
        let unknown = || self.file.fault(name, format!("{model} files have no tensor for {name}"));
        let rows = self.rows_of(name).ok_or_else(unknown)?;
        let tensor = &rows.tensor;
        let stored = self.file.tensor(tensor).ok_or_else(|| self.file.missing(tensor))?;
        if rows.shape != shape || rows.head.is_some_and(|head| !shape[0].is_multiple_of(head)) {
            let what = format!("tensor {tensor} has shape {:?}, but", stored.shape());
            let what = format!("{what} the metadata ask for {shape:?} of {name}");
            return Err(self.file.fault(tensor, what));
        }
        Ok(rows)
    }
}

/// Whether a file has the architecture of a head; a damaged one has none.
pub(in crate::checkpoint) fn is_head(file: &Path) -> bool {
    let architecture = |file: GgufFile| Architecture::of(file.metadata());
    GgufFile::open(file)
        .and_then(architecture)
        .is_ok_and(|architecture| architecture.head.is_some())
}

impl Tensors for GgufCheckpoint {
    fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        Self::get(self, name, shape)
    }

    fn kind(&self, name: &str) -> TensorKind {
        Self::kind(self, name).unwrap_or(TensorKind::F32)
    }

    fn raw(&self, name: &str, shape: &[usize]) -> Result<RawRows, Error> {
        Self::raw(self, name, shape)
    }

    fn default_dtype(&self) -> Dtype {
        Dtype::Stored
    }

    fn sha256(&self) -> Result<String, Error> {
        Self::sha256(self)
    }
}

impl RowsOf {
    /// Whether it is a whole tensor as it is stored.
    fn are_all_in_order(&self) -> bool {
        self.rows.is_none() && self.head.is_none()
    }

    /// The entries of these rows, of `width` each, unless they are the whole tensor.
    fn entries(&self, width: usize) -> Option<Range<usize>> {
        self.rows.as_ref().map(|rows| rows.start * width..rows.end * width)
    }

    /// These rows, each of `width` entries, in the order of transformers.
    fn arrange<T: Copy>(&self, rows: Vec<T>, width: usize) -> Vec<T> {
        let Some(head) = self.head else { return rows };
        let stored = (0..rows.len() / width).map(|row| stored_at(row, head));
        stored.flat_map(|row| &rows[row * width..(row + 1) * width]).copied().collect()
    }
}

/// The place of a row if rotary pairs are neighbours: pair i of a head of `head` rows is
/// rows 2i and 2i + 1 instead of i and i + half a head.
fn stored_at(row: usize, head: usize) -> usize {
    let (within, half) = (row % head, head / 2);
    row - within + 2 * (within % half) + within / half
}
