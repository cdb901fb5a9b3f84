//! Models in several files: `NAME-00001-of-00003.gguf` and so on.

use std::path::{Path, PathBuf};

use super::header::Header;
use super::metadata::Metadata;
use crate::checkpoint::files::OpenFile;
use crate::core::error::Error;

/// The number of a part, from 0.
const NUMBER: &str = "split.no";
/// The number of parts.
const COUNT: &str = "split.count";
/// The number of tensors of all parts.
const TENSORS: &str = "split.tensors.count";
/// The digits of a number in a name.
const DIGITS: usize = 5;

/// A file with its header.
#[derive(Debug)]
pub(super) struct FilePart {
    pub(super) file: OpenFile,
    pub(super) header: Header,
}

impl FilePart {
    fn open(path: PathBuf) -> Result<Self, Error> {
        let file = OpenFile::open(path)?;
        let header = Header::read(&file)?;
        Ok(Self { file, header })
    }

    /// The number of parts that it says there are.
    fn count(&self) -> Result<u64, Error> {
        Ok(self.header.metadata.count(COUNT)?.unwrap_or(1))
    }
}

/// Opens a model: one file, or all parts of a split one, of which `path` is any.
///
/// # Errors
/// If a file is missing or damaged, or the parts do not belong together.
pub(super) fn open_parts(path: &Path) -> Result<Vec<FilePart>, Error> {
    let named = FilePart::open(path.to_owned())?;
    let count = named.count()?;
    if count <= 1 {
        return Ok(vec![named]);
    }
    let Some((prefix, number)) = parsed(path, count) else {
        let what = format!("is {count}, but the file is not called NAME-00001-of-{count:05}.gguf");
        return Err(named.header.metadata.fault(COUNT, &what));
    };
    let mut named = Some(named);
    let parts = (0..count).map(|part| {
        let file = if part == number { named.take() } else { None };
        let part_path = path.with_file_name(format!("{prefix}{}", ending(part, count)));
        let file = file.map_or_else(|| FilePart::open(part_path), Ok)?;
        check(&file.header.metadata, part, count)?;
        Ok(file)
    });
    let parts = parts.collect::<Result<Vec<_>, Error>>()?;
    check_tensors(&parts)?;
    Ok(parts)
}

/// What the names of all parts begin with, and the number of the part with this name.
fn parsed(path: &Path, count: u64) -> Option<(&str, u64)> {
    let name = path.file_name()?.to_str()?;
    let at = name.len().checked_sub(ending(0, count).len())?;
    let (prefix, end) = name.split_at_checked(at)?;
    let number = end.get(1..=DIGITS)?.parse::<u64>().ok()?.checked_sub(1)?;
    (number < count && end == ending(number, count)).then_some((prefix, number))
}

/// What the name of a part ends with.
fn ending(part: u64, count: u64) -> String {
    format!("-{:05}-of-{count:05}.gguf", part + 1)
}

fn check(metadata: &Metadata, part: u64, count: u64) -> Result<(), Error> {
    for (key, wanted) in [(NUMBER, part), (COUNT, count)] {
        let what = match metadata.count(key)? {
            Some(found) if found == wanted => continue,
            Some(found) => format!("is {found}, but by the name of the file it must be {wanted}"),
            None => format!("is missing, but by the name of the file it must be {wanted}"),
        };
        return Err(metadata.fault(key, &what));
    }
    Ok(())
}

/// Checks that the parts have all tensors, and none twice.
fn check_tensors(parts: &[FilePart]) -> Result<(), Error> {
    let total = parts.iter().map(|part| part.header.tensors.len() as u64).sum::<u64>();
    for part in parts {
        let metadata = &part.header.metadata;
        if let Some(count) = metadata.count(TENSORS)?.filter(|&count| count != total) {
            let what = format!("is {count}, but the parts have {total} tensors in all");
            return Err(metadata.fault(TENSORS, &what));
        }
    }
    for (number, part) in parts.iter().enumerate() {
        let before = |name: &&String| {
            parts[..number].iter().any(|earlier| earlier.header.tensors.contains_key(*name))
        };
        if let Some(name) = part.header.tensors.keys().find(before) {
            return Err(part.file.fault(format!("tensor {name} is in an earlier part, too")));
        }
    }
    Ok(())
}
