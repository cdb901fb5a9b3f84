//! The archive of a torch file: a zip whose entries are stored as they are, so that tensors can be
//! read in their places.

use std::collections::BTreeMap;

use super::convert;
use crate::checkpoint::files::OpenFile;
use crate::core::error::Error;

/// The most bytes of the list of entries, and of an entry that is read as a whole. A tensor takes
/// about 100 in the former and 200 in the pickle.
const MOST: u64 = 16 << 20;
/// The protocol, and the number, with which files of older versions of torch begin.
const OLD: [u8; 14] = *b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
/// In place of a number of 32 bits that has 64, which the extra fields hold.
const LARGE: u64 = u32::MAX as u64;

/// An archive whose list of entries has been read.
pub(super) struct Archive<'f> {
    file: &'f OpenFile,
    entries: BTreeMap<String, Entry>,
    /// What the names of all entries begin with.
    root: String,
    /// Where the list of entries begins, and so the last of them ends.
    end: u64,
}

/// An entry, as the list describes it.
struct Entry {
    /// Where its own header is.
    header: u64,
    /// Number of bytes.
    length: u64,
    /// Whether these are its content, neither compressed nor encrypted.
    is_plain: bool,
}

impl<'f> Archive<'f> {
    /// Reads the list of entries.
    pub(super) fn open(file: &'f OpenFile) -> Result<Self, Error> {
        let broken = || file.fault("not a complete file of torch.save");
        let length = file.length();
        let Some(end) = record::<22>(file, length.checked_sub(22), b"PK\x05\x06")? else {
            let is_old = length >= 14 && file.bytes(0, 14)? == OLD;
            let old = || file.fault(format!("written by a torch before 1.6: {}", convert(file)));
            return Err(if is_old { old() } else { broken() });
        };
        let (size, start) = match record::<20>(file, length.checked_sub(42), b"PK\x06\x07")? {
            None => (number(&end[12..16]), number(&end[16..20])),
            Some(locator) => {
                let at = number(&locator[8..16]);
                let end = record::<56>(file, Some(at), b"PK\x06\x06")?.ok_or_else(broken)?;
                (number(&end[40..48]), number(&end[48..56]))
            }
        };
        if size > MOST || start.checked_add(size).is_none_or(|end| end > length) {
            return Err(broken());
        }
        let list = file.bytes(start, size as usize)?;
        let entries = entries(&list).ok_or_else(broken)?;
        let root = entries.keys().find_map(|name| name.strip_suffix("/data.pkl"));
        let root = root.ok_or_else(broken)?.to_owned();
        Ok(Self { file, entries, root, end: start })
    }

    /// Whether there is an entry of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(&format!("{}/{name}", self.root))
    }

    /// First byte and number of bytes of an entry.
    pub(super) fn place(&self, name: &str) -> Result<(u64, u64), Error> {
        let name = format!("{}/{name}", self.root);
        let Some(entry) = self.entries.get(&name) else {
            return Err(self.file.fault(format!("its entry {name:?} is missing")));
        };
        if !entry.is_plain {
            let what = format!("its entries are compressed: {}", convert(self.file));
            return Err(self.file.fault(what));
        }
        let own = record::<30>(self.file, Some(entry.header), b"PK\x03\x04")?;
        let start = own.map(|own| entry.header + 30 + number(&own[26..28]) + number(&own[28..30]));
        let fits = |start: &u64| start.checked_add(entry.length).is_some_and(|end| end <= self.end);
        let place = start.filter(fits).map(|start| (start, entry.length));
        place.ok_or_else(|| self.file.fault(format!("its entry {name:?} is not complete")))
    }

    /// The content of an entry.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let (start, length) = self.place(name)?;
        if length > MOST {
            let most = MOST >> 20;
            return Err(self.file.fault(format!("its entry {name} is larger than {most} MiB")));
        }
        self.file.bytes(start, length as usize)
    }
}

/// A record of `N` bytes that begins with `mark`; `None` if there is none at `at`.
fn record<const N: usize>(
    file: &OpenFile,
    at: Option<u64>,
    mark: &[u8],
) -> Result<Option<[u8; N]>, Error> {
    let is_there = |at: &u64| at.checked_add(N as u64).is_some_and(|end| end <= file.length());
    let Some(at) = at.filter(is_there) else { return Ok(None) };
    let record = <[u8; N]>::try_from(file.bytes(at, N)?).ok();
    Ok(record.filter(|record| record.starts_with(mark)))
}

/// The number in bytes, the lowest first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// The entries of a list, by name; `None` if it is damaged or has two of one name.
fn entries(mut list: &[u8]) -> Option<BTreeMap<String, Entry>> {
    let mut entries = BTreeMap::new();
    while !list.is_empty() {
        let fixed = list.first_chunk::<46>().filter(|fixed| fixed.starts_with(b"PK\x01\x02"))?;
        let [name, extra, comment] = [28, 30, 32].map(|at| number(&fixed[at..at + 2]) as usize);
        let (name, rest) = list[fixed.len()..].split_at_checked(name)?;
        let (extra, rest) = rest.split_at_checked(extra)?;
        list = rest.get(comment..)?;
        // Those that need 64 bits are in the extra field, in this order.
        let mut wide = wide(extra).chunks_exact(8);
        let [whole, stored, header] = [24, 20, 42].map(|at| match number(&fixed[at..at + 4]) {
            LARGE => wide.next().map(number),
            number => Some(number),
        });
        let (method, is_encrypted) = (number(&fixed[10..12]), fixed[8] & 1 == 1);
        let is_plain = method == 0 && !is_encrypted && whole == stored;
        let entry = Entry { header: header?, length: whole?, is_plain };
        let name = String::from_utf8(name.to_vec()).ok()?;
        if entries.insert(name, entry).is_some() {
            return None;
        }
    }
    Some(entries)
}

/// The extra field with numbers of 64 bits; empty if there is none.
fn wide(mut extra: &[u8]) -> &[u8] {
    while let Some((head, rest)) = extra.split_first_chunk::<4>() {
        let Some((field, rest)) = rest.split_at_checked(number(&head[2..]) as usize) else { break };
        if head[..2] == [1, 0] {
            return field;
        }
        extra = rest;
    }
    &[]
}
