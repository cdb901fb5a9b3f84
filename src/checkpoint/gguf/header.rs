//! The header of a GGUF file: metadata, and where the tensors are.

use std::collections::BTreeMap;

use super::cursor::Cursor;
use super::metadata::{Metadata, MetadataList, MetadataValue, ScalarKind, Scalars};
use crate::checkpoint::files::OpenFile;
use crate::core::error::Error;
use crate::engine::blocks::TensorKind;

/// The first bytes of a file.
const MAGIC: [u8; 4] = *b"GGUF";
/// The versions that are read; they differ in nothing that matters here.
const VERSIONS: [u32; 2] = [2, 3];
/// The key of the number that offsets of tensors are multiples of.
const ALIGNMENT_KEY: &str = "general.alignment";
/// Its value where there is none.
const ALIGNMENT: u64 = 32;
/// The most lists within lists. Files have none; the format allows any number.
const MOST_DEPTH: usize = 4;
/// The most dimensions of a tensor.
const MOST_DIMENSIONS: u32 = 4;
/// Types of values that are not scalars.
const TEXT: u32 = 8;
const LIST: u32 = 9;
/// The fewest bytes of a key with its value, of a tensor's entry, and of a list.
const LEAST_PAIR: usize = 14;
const LEAST_ENTRY: usize = 33;
const LEAST_LIST: usize = 12;
/// The type of a tensor of whole numbers of 64 bits.
const I64: u32 = 27;

/// The header of a file, checked against the file's length.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) metadata: Metadata,
    /// The tensors by name.
    pub(super) tensors: BTreeMap<String, StoredTensor>,
    /// SHA-256 of the header.
    pub(super) sha256: [u8; 32],
}

/// A tensor in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTensor {
    kind: Option<TensorKind>,
    shape: Vec<usize>,
    /// The place of its first byte in the file.
    start: u64,
    bytes: u64,
}

impl StoredTensor {
    /// How its weights are stored; none if it holds whole numbers of 64 bits instead.
    #[must_use]
    pub fn kind(&self) -> Option<TensorKind> {
        self.kind
    }

    /// Its shape in the order of Hugging Face checkpoints: a matrix has `(rows, inputs)`.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Its length in the file, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its place in the file: the first byte and the number of bytes.
    pub(super) fn place(&self) -> (u64, u64) {
        (self.start, self.bytes)
    }
}

impl Header {
    /// Reads the header of a file.
    pub(super) fn read(file: &OpenFile) -> Result<Self, Error> {
        let mut cursor = Cursor::new(file)?;
        read_version(file, &mut cursor)?;
        let tensors = cursor.count(LEAST_ENTRY)?;
        let pairs = cursor.count(LEAST_PAIR)?;
        let values = read_named(&mut cursor, pairs, ["metadata key"; 2], read_value)?;
        let metadata = Metadata::new(file.path(), values);
        let alignment = alignment(&metadata)?;
        let names = ["the entry of tensor", "tensor"];
        let mut tensors = read_named(&mut cursor, tensors, names, read_tensor)?;
        let at = cursor.at();
        let start = at.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
        for (name, tensor) in &mut tensors {
            place(tensor, start, alignment, file.length())
                .map_err(|what| file.fault(format!("tensor {name} {what}")))?;
        }
        check_overlaps(file, &tensors)?;
        Ok(Self { metadata, tensors, sha256: cursor.hash() })
    }
}

fn read_version(file: &OpenFile, cursor: &mut Cursor<'_>) -> Result<(), Error> {
    if file.length() < MAGIC.len() as u64 || cursor.bytes(MAGIC.len())? != MAGIC {
        return Err(file.fault("not a GGUF file (it does not begin with \"GGUF\")"));
    }
    let version = cursor.u32()?;
    if VERSIONS.contains(&version) {
        return Ok(());
    }
    let what = if VERSIONS.contains(&version.swap_bytes()) {
        "is a big-endian GGUF file; only little-endian ones are supported".to_owned()
    } else {
        let [first, last] = VERSIONS;
        format!("is a GGUF file of version {version}; supported are {first} and {last}")
    };
    Err(file.fault(what))
}

/// `count` items by their names. Messages call them `kind`, and `unnamed` while the name is not
/// known.
fn read_named<T>(
    cursor: &mut Cursor<'_>,
    count: usize,
    [unnamed, kind]: [&str; 2],
    read: fn(&mut Cursor<'_>) -> Result<T, Error>,
) -> Result<BTreeMap<String, T>, Error> {
    let mut items = BTreeMap::new();
    for number in 1..=count {
        cursor.enter(format!("{unnamed} {number} of {count}"));
        let name = cursor.name()?;
        cursor.enter(format!("{kind} {name}"));
        let item = read(cursor)?;
        if items.insert(name, item).is_some() {
            return Err(cursor.fault("occurs twice"));
        }
    }
    Ok(items)
}

fn read_value(cursor: &mut Cursor<'_>) -> Result<MetadataValue, Error> {
    match cursor.u32()? {
        TEXT => cursor.text().map(MetadataValue::Text),
        LIST => read_list(cursor, 1).map(MetadataValue::List),
        kind => {
            let kind = scalar(cursor, kind)?;
            let bytes = read_scalars(cursor, kind, 1)?;
            Ok(kind.value(&bytes))
        }
    }
}

fn read_list(cursor: &mut Cursor<'_>, depth: usize) -> Result<MetadataList, Error> {
    if depth > MOST_DEPTH {
        return Err(cursor.fault(format!("has more than {MOST_DEPTH} lists within lists")));
    }
    Ok(match cursor.u32()? {
        TEXT => {
            let count = cursor.count(size_of::<u64>())?;
            let texts = (0..count).map(|_| cursor.text());
            MetadataList::Texts(texts.collect::<Result<_, _>>()?)
        }
        LIST => {
            let count = cursor.count(LEAST_LIST)?;
            let lists = (0..count).map(|_| read_list(cursor, depth + 1));
            MetadataList::Lists(lists.collect::<Result<_, _>>()?)
        }
        kind => {
            let kind = scalar(cursor, kind)?;
            let count = cursor.count(kind.length())?;
            MetadataList::Scalars(Scalars::new(kind, read_scalars(cursor, kind, count)?))
        }
    })
}

fn scalar(cursor: &Cursor<'_>, kind: u32) -> Result<ScalarKind, Error> {
    let unknown = || cursor.fault(format!("has a value of type {kind}, which does not exist"));
    ScalarKind::from_id(kind).ok_or_else(unknown)
}

/// The bytes of `count` scalars, of which [`Cursor::count`] has found that they fit.
fn read_scalars(cursor: &mut Cursor<'_>, kind: ScalarKind, count: usize) -> Result<Vec<u8>, Error> {
    let bytes = cursor.bytes(count * kind.length())?;
    match bytes.iter().find(|&&byte| kind == ScalarKind::Bool && byte > 1) {
        Some(byte) => Err(cursor.fault(format!("has the truth value {byte}, which is not 0 or 1"))),
        None => Ok(bytes),
    }
}

fn alignment(metadata: &Metadata) -> Result<u64, Error> {
    let alignment = metadata.count(ALIGNMENT_KEY)?.unwrap_or(ALIGNMENT);
    if alignment.is_power_of_two() {
        return Ok(alignment);
    }
    Err(metadata.fault(ALIGNMENT_KEY, &format!("is {alignment}, which is not a power of two")))
}

/// The entry of a tensor, which starts at its offset from the first tensor so far.
fn read_tensor(cursor: &mut Cursor<'_>) -> Result<StoredTensor, Error> {
    let dimensions = cursor.u32()?;
    if !(1..=MOST_DIMENSIONS).contains(&dimensions) {
        let what = format!("has {dimensions} dimensions; supported are 1 to {MOST_DIMENSIONS}");
        return Err(cursor.fault(what));
    }
    let sizes = (0..dimensions).map(|_| cursor.u64()).collect::<Result<Vec<_>, _>>()?;
    let kind = match cursor.u32()? {
        I64 => None,
        kind => Some(TensorKind::from_id(kind).map_err(|name| cursor.fault(not_weights(&name)))?),
    };
    let (block, bytes) = kind.map_or((1, 8), |kind| (kind.length() as u64, kind.bytes() as u64));
    let start = cursor.u64()?;
    let wrong = |what: &str| cursor.fault(format!("has sizes {sizes:?} {what}"));
    let shape = sizes.iter().rev().map(|&size| usize::try_from(size).ok().filter(|&n| n > 0));
    let shape = shape.collect::<Option<Vec<_>>>().ok_or_else(|| wrong("that are out of range"))?;
    let inputs = sizes[0];
    if !inputs.is_multiple_of(block) {
        let name = kind.map_or("I64", TensorKind::name);
        return Err(wrong(&format!("of type {name}, whose rows are multiples of {block} weights")));
    }
    let rows = sizes[1..].iter().try_fold(1u64, |rows, &size| rows.checked_mul(size));
    let row = (inputs / block).checked_mul(bytes);
    // The number of weights fits, too: no type stores more than two in a byte.
    let bytes = rows.zip(row).and_then(|(rows, row)| rows.checked_mul(row));
    let bytes = bytes.filter(|&bytes| bytes <= u64::MAX / 4);
    let bytes = bytes.ok_or_else(|| wrong("whose product is out of range"))?;
    Ok(StoredTensor { kind, shape, start, bytes })
}

/// What is wrong with a tensor of this type where weights are expected.
pub(super) fn not_weights(name: &str) -> String {
    let kinds = TensorKind::ALL.map(TensorKind::name).join(", ");
    format!("is of type {name}; supported are: {kinds}")
}

/// Turns the offset of a tensor into its place in a file of this length.
fn place(tensor: &mut StoredTensor, start: u64, alignment: u64, length: u64) -> Result<(), String> {
    let (offset, bytes) = tensor.place();
    if !offset.is_multiple_of(alignment) {
        return Err(format!("has offset {offset}, which is not a multiple of {alignment}"));
    }
    let place = start.checked_add(offset).filter(|place| {
        let end = place.checked_add(bytes);
        end.is_some_and(|end| end <= length)
    });
    let past = || format!("of {bytes} bytes at offset {offset} ends past the end of the file");
    tensor.start = place.ok_or_else(past)?;
    Ok(())
}

fn check_overlaps(file: &OpenFile, tensors: &BTreeMap<String, StoredTensor>) -> Result<(), Error> {
    let mut places = tensors.iter().map(|(name, t)| (t.start, t.bytes, name)).collect::<Vec<_>>();
    places.sort_unstable();
    match places.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
        Some(pair) => Err(file.fault(format!("tensors {} and {} overlap", pair[0].2, pair[1].2))),
        None => Ok(()),
    }
}
