//! Tensors from files of weights, whole or in shards, in the format of safetensors or as
//! `torch.save` writes them.
//!
//! Every tensor is read once, on request, and hashed as it is read: the hash covers
//! exactly the weights that are computed with, and no part of a file stays in memory.

use std::borrow::Cow;
use std::collections::BTreeMap;
#[cfg(feature = "harness")]
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::safetensors::Dtype;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::files::{Text, add_name};
use super::index::{is_index, main_file, read_index, shard_names};
use super::stored::{Place, Stored, kind_of};
use super::{pickled, safetensors};
#[cfg(feature = "harness")]
use crate::checkpoint::ModelSummary;
use crate::checkpoint::files::{OpenFile, not_finite};
use crate::core::error::Error;
use crate::core::lanes::LANES;
use crate::engine::blocks::{RawRows, SomeRows, TensorKind};

/// The weights of a folder.
pub(in crate::checkpoint) struct Weights {
    files: Vec<Stored>,
    /// For sharded weights: the index, and the number of the file that holds each
    /// tensor.
    shard: Option<(Text, BTreeMap<String, usize>)>,
    /// Where tensors lie if the model is the text model of a larger one.
    within: Option<&'static Within>,
    /// What the names of matrices begin with that are stored with one row per input.
    transposed: Option<String>,
    /// SHA-256 of the tensors that were read.
    pub(super) read: Mutex<BTreeMap<String, [u8; 32]>>,
    /// The last part of a tensor of all experts that was read, by its key in `read`: gate and up
    /// projection have one.
    pub(super) expert: Mutex<(String, Arc<Vec<u8>>)>,
}

/// What the name of a tensor begins with in a model, and in the larger model that contains it.
type Within = (&'static str, &'static str);

/// The names that transformers gives to the tensors of a text model: before and from version 4.52.
const WITHIN: [Within; 3] = [
    ("", "language_model."),
    ("model.", "model.language_model."),
    // GPT-2 as it was published.
    ("transformer.", ""),
];
/// One of these tensors is in every model.
const EMBEDDINGS: [&str; 2] = ["model.embed_tokens.weight", "transformer.wte.weight"];

impl Weights {
    /// Opens the weights of `folder`: the first of [`WEIGHTS`](crate::checkpoint::layout::WEIGHTS)
    /// that is there.
    pub(in crate::checkpoint) fn open(folder: &Path) -> Result<Self, Error> {
        let main = main_file(folder);
        if !is_index(&main) {
            return Self::of_file(main);
        }
        let (index, weight_map) = read_index(main)?;
        let names = shard_names(&index, &weight_map)?;
        let files = names.iter().map(|name| open(folder.join(name)));
        let files = files.collect::<Result<_, _>>()?;
        let number = |file: &String| names.binary_search(&file).unwrap_or_default();
        let shard = weight_map.iter().map(|(tensor, file)| (tensor.clone(), number(file)));
        let shard = shard.collect();
        Ok(Self { shard: Some((index, shard)), ..Self::of_files(files) }.find_text_model())
    }

    /// Opens the weights of one file.
    pub(in crate::checkpoint) fn of_file(file: PathBuf) -> Result<Self, Error> {
        Ok(Self::of_files(vec![open(file)?]).find_text_model())
    }

    fn of_files(files: Vec<Stored>) -> Self {
        let (read, expert) = (Mutex::default(), Mutex::default());
        Self { files, shard: None, within: None, transposed: None, read, expert }
    }

    /// Finds the tensors of a text model that lie within a larger one.
    fn find_text_model(mut self) -> Self {
        if !EMBEDDINGS.iter().any(|name| self.has(name)) {
            let has = |within: &&Within| {
                EMBEDDINGS.iter().any(|name| self.place(&renamed(name, Some(within))).is_some())
            };
            self.within = WITHIN.iter().find(has);
        }
        self
    }

    /// The same weights, where matrices whose names begin like this are stored with one row per
    /// input.
    pub(in crate::checkpoint) fn with_transposed(mut self, names: Option<String>) -> Self {
        self.transposed = names;
        self
    }

    /// Whether a tensor is stored with one row per input.
    fn is_transposed(&self, name: &str, shape: &[usize]) -> bool {
        let begins = self.transposed.as_ref().is_some_and(|begin| name.starts_with(begin));
        begins && shape.len() == 2
    }

    /// Checks that a tensor of this shape is there.
    pub(in crate::checkpoint) fn check(&self, name: &str, shape: &[usize]) -> Result<(), Error> {
        self.check_fused(name, shape).unwrap_or_else(|| self.find(name, shape).map(drop))
    }

    /// Whether there is a tensor of this name.
    pub(in crate::checkpoint) fn has(&self, name: &str) -> bool {
        self.place(name).is_some()
    }

    /// A tensor in f32, of any stored type, row by row.
    ///
    /// # Errors
    /// If it is missing, has another shape or an unsupported type, contains NaN or infinity,
    /// or cannot be read.
    pub(in crate::checkpoint) fn get(
        &self,
        name: &str,
        shape: &[usize],
    ) -> Result<Vec<f32>, Error> {
        if let Some(fused) = self.get_fused(name, shape) {
            return fused;
        }
        let (stored, place) = self.find(name, shape)?;
        let (mut tensor, hash) = stored.tensor(name, place)?;
        if !tensor.iter().all(|weight| weight.is_finite()) {
            return Err(not_finite(stored.file.path(), name));
        }
        self.read.lock().insert(name.to_owned(), hash);
        if self.is_transposed(name, shape) {
            let (rows, inputs) = (shape[0], shape[1]);
            let row = |row| (0..inputs).map(move |input| input * rows + row);
            tensor = (0..rows).flat_map(row).map(|at| tensor[at]).collect();
        }
        Ok(tensor)
    }

    /// Calls `each` with the rows of a matrix as [`Tensors::visit`] does.
    ///
    /// # Errors
    /// As [`Self::get`].
    ///
    /// [`Tensors::visit`]: crate::engine::decoder::Tensors::visit
    pub(in crate::checkpoint) fn visit(
        &self,
        name: &str,
        shape: &[usize],
        each: &mut dyn FnMut(SomeRows<'_>),
    ) -> Result<(), Error> {
        let is_plain = self.has(name) && !self.is_transposed(name, shape);
        let (stored, place) = match is_plain {
            true => self.find(name, shape)?,
            false => {
                each(SomeRows::Numbers(&self.get(name, shape)?));
                return Ok(());
            }
        };
        let kind = stored.kind(name, place)?;
        let mut finite = true;
        let rows = LANES * kind.bytes() * shape[1];
        let hash = stored.file.hashed(place.bytes, rows, |piece| {
            finite &= kind.is_finite(piece);
            each(SomeRows::Stored(piece));
        })?;
        if !finite {
            return Err(not_finite(stored.file.path(), name));
        }
        self.read.lock().insert(name.to_owned(), hash);
        Ok(())
    }

    /// A list of `length` whole numbers.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(in crate::checkpoint) fn integers(
        &self,
        name: &str,
        length: usize,
    ) -> Result<Vec<i64>, Error> {
        let (stored, place) = self.find(name, &[length])?;
        let (numbers, hash) = stored.integers(name, place)?;
        self.read.lock().insert(name.to_owned(), hash);
        Ok(numbers)
    }

    /// Whether two tensors are the same numbers of a file.
    pub(in crate::checkpoint) fn are_one(&self, [one, other]: [&str; 2]) -> bool {
        let bytes = |name| self.place(name).map(|(file, place)| (file, place.bytes));
        bytes(one).is_some_and(|bytes_of_one| bytes(other) == Some(bytes_of_one))
    }

    /// The bytes of a tensor.
    ///
    /// # Errors
    /// If it is missing, has another shape or type, or cannot be read.
    pub(super) fn bytes(
        &self,
        name: &str,
        dtype: Dtype,
        shape: &[usize],
    ) -> Result<Vec<u8>, Error> {
        self.check_type(name, dtype, shape)?;
        let (stored, place) = self.find(name, shape)?;
        let mut bytes = Vec::with_capacity(place.bytes.1 as usize);
        let hash = stored.file.hashed(place.bytes, 1, |piece| bytes.extend_from_slice(piece))?;
        self.read.lock().insert(name.to_owned(), hash);
        Ok(bytes)
    }

    /// Checks that a tensor of this type and shape is there.
    pub(super) fn check_type(
        &self,
        name: &str,
        dtype: Dtype,
        shape: &[usize],
    ) -> Result<(), Error> {
        let (stored, place) = self.find(name, shape)?;
        if place.dtype == dtype {
            return Ok(());
        }
        let found = place.dtype;
        Err(stored.file.fault(format!("tensor {name} is of type {found}, but must be {dtype}")))
    }

    /// The type and the shape of a tensor, if it is there.
    pub(super) fn form(&self, name: &str) -> Option<(Dtype, &[usize])> {
        self.place(name).map(|(_, place)| (place.dtype, &*place.shape))
    }

    /// A tensor as it is stored, if that is in blocks.
    ///
    /// # Errors
    /// As [`Self::get`], and if it is stored otherwise.
    pub(in crate::checkpoint) fn raw(&self, name: &str, shape: &[usize]) -> Result<RawRows, Error> {
        let other = || self.fault(name, format!("tensor {name} is not stored in blocks"));
        self.raw_fused(name, shape).unwrap_or_else(|| Err(other()))
    }

    /// The file that holds a tensor.
    pub(super) fn path(&self, name: &str) -> &Path {
        self.locate(name).map_or(self.files[0].file.path(), |(stored, _)| stored.file.path())
    }

    /// The error for the file that holds a tensor.
    pub(super) fn fault(&self, name: &str, what: impl AsRef<str>) -> Error {
        Error::file(self.path(name), what.as_ref())
    }

    /// The type of a tensor.
    pub(in crate::checkpoint) fn kind(&self, name: &str) -> TensorKind {
        if let Some(kind) = self.kind_of_fused(name) {
            return kind;
        }
        let kind = self.place(name).and_then(|(_, place)| kind_of(place.dtype));
        kind.unwrap_or(TensorKind::F32)
    }

    /// The number of the file with a tensor, and where the tensor lies in it.
    fn place(&self, name: &str) -> Option<(usize, &Place)> {
        let name = &*renamed(name, self.within);
        let number = self.shard.as_ref().map_or(Some(0), |(_, shard)| shard.get(name).copied())?;
        Some((number, self.files[number].tensors.get(name)?))
    }

    /// Adds everything that was read to a hash: names and headers of the files, and the
    /// tensors by name.
    ///
    /// # Errors
    /// If a file was changed since it was opened.
    pub(in crate::checkpoint) fn add_to(&self, hash: &mut Sha256) -> Result<(), Error> {
        if let Some((index, _)) = &self.shard {
            index.add_to(hash);
        }
        for stored in &self.files {
            stored.file.check_unchanged()?;
            add_name(hash, stored.file.path());
            hash.update(&stored.header);
        }
        for (name, tensor) in self.read.lock().iter() {
            hash.update(name);
            hash.update(tensor);
        }
        Ok(())
    }

    /// All tensors in a few numbers.
    #[cfg(feature = "harness")]
    pub(in crate::checkpoint) fn summary(&self) -> ModelSummary {
        let bytes = self.files.iter().map(|stored| stored.file.length()).sum();
        let places = self
            .files
            .iter()
            .enumerate()
            .flat_map(|(file, stored)| stored.tensors.values().map(move |place| (file, place)));
        // Tied tensors lie in one place, and are counted once.
        let mut seen = BTreeSet::new();
        let places = places.filter(|(file, place)| seen.insert((*file, place.bytes)));
        let count = |place: &Place| place.shape.iter().map(|&n| n as u64).product();
        let tensors = places.map(|(_, place)| (place.dtype.to_string(), count(place)));
        ModelSummary { bytes, ..ModelSummary::of_tensors(tensors) }
    }

    fn find(&self, name: &str, shape: &[usize]) -> Result<(&Stored, &Place), Error> {
        let (stored, place) = self.locate(name)?;
        let mut shape = shape.to_vec();
        if self.is_transposed(name, &shape) {
            shape.reverse();
        }
        if place.shape != shape {
            let (name, found) = (renamed(name, self.within), &place.shape);
            let what = format!("tensor {name} has shape {found:?}, but config.json asks for");
            return Err(stored.file.fault(format!("{what} {shape:?}")));
        }
        check_rows(name, stored, place)?;
        Ok((stored, place))
    }

    /// Where a tensor lies.
    pub(super) fn locate(&self, name: &str) -> Result<(&Stored, &Place), Error> {
        let name = &*renamed(name, self.within);
        let missing = || format!("tensor {name} is missing");
        let number = match &self.shard {
            None => 0,
            Some((index, shard)) => *shard.get(name).ok_or_else(|| index.fault(missing()))?,
        };
        let stored = &self.files[number];
        let place = stored.tensors.get(name).ok_or_else(|| stored.file.fault(missing()))?;
        Ok((stored, place))
    }
}

/// Checks that the numbers of a tensor lie row by row: others cannot be read.
pub(super) fn check_rows(name: &str, stored: &Stored, place: &Place) -> Result<(), Error> {
    if place.by_rows {
        return Ok(());
    }
    let convert = pickled::convert(&stored.file);
    Err(stored.file.fault(format!("tensor {name} does not lie row by row: {convert}")))
}

/// Opens a file; its name says in which format it is.
fn open(path: PathBuf) -> Result<Stored, Error> {
    let is_safe = path.extension().is_some_and(|end| end == "safetensors");
    let file = OpenFile::open(path)?;
    if is_safe { safetensors::read(file) } else { pickled::read(file) }
}

/// The name of a tensor in the files.
fn renamed<'n>(name: &'n str, within: Option<&Within>) -> Cow<'n, str> {
    let renamed =
        within.and_then(|(own, there)| Some(format!("{there}{}", name.strip_prefix(own)?)));
    renamed.map_or(Cow::Borrowed(name), Cow::Owned)
}
