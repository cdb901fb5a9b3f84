//! Moves rows of long files to segments.
//!
//! A segment gets its name once it is complete and synced, and only then its rows leave the
//! text. A crash between the two leaves them in both, where readers take them once.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};

use super::files::{Replacement, cannot_write, write_whole};
use crate::rows::{
    RawRow, SegmentWriter, each_packed, each_unpacked_row, next_segment, salvage, segments, text_of,
};
use crate::terminal;

/// The length in bytes above which the rows of a file move to a segment, unless a command is
/// given another one.
pub const PACK_ABOVE: u64 = 64 << 20;

/// Moves all rows of the text to a new segment. They are of a kind that has columns.
pub(super) fn pack<R: RawRow>(folder: &Path) -> Result<()> {
    let segment = next_segment::<R>(folder)?;
    let moved = write_segment(&segment, |out| {
        each_unpacked_row(folder, |row: R| out.row(row).with_context(|| cannot_write(&segment)))?;
        Ok(())
    })?;
    if moved { write_whole(&folder.join(R::FILE), &text_of::<R>(&[], true)?) } else { Ok(()) }
}

/// The writer of a segment that is not yet complete.
type PartialSegment<'a, R> = SegmentWriter<R, Replacement<'a>>;

/// Writes a segment, whole or not at all, with the rows that `fill` gives it. Without rows
/// there is none; returns whether there are any.
pub(super) fn write_segment<R: RawRow>(
    segment: &Path,
    fill: impl FnOnce(&mut PartialSegment<'_, R>) -> Result<()>,
) -> Result<bool> {
    let cannot = || cannot_write(segment);
    let mut out = SegmentWriter::new(Replacement::begin(segment)?).with_context(cannot)?;
    fill(&mut out)?;
    if out.is_empty() {
        return match fs::remove_file(segment) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(cannot)
            }
            _ => Ok(false),
        };
    }
    out.end().with_context(cannot)?.commit()?;
    Ok(true)
}

/// Replaces segments that cannot be read by what can be read of them; the blocks that lack
/// rows are then run again. The damaged file stays under another name.
pub(super) fn mend<R: RawRow>(folder: &Path) -> Result<()> {
    for segment in segments::<R>(folder)? {
        let Err(error) = each_packed(&segment, |_: R| Ok(())) else { continue };
        // What cannot be opened now may be sound.
        if error.is::<io::Error>() {
            return Err(error);
        }
        let mut aside = segment.clone().into_os_string();
        aside.push(".damaged");
        let aside = Path::new(&aside);
        terminal::say(format_args!(
            "warning: {error:#}; it is now {}, and the blocks whose rows are lost are run again",
            aside.display()
        ));
        fs::rename(&segment, aside).with_context(|| cannot_write(aside))?;
        write_segment(&segment, |out| {
            salvage(aside, |row: R| out.row(row).with_context(|| cannot_write(&segment)))
        })?;
    }
    Ok(())
}
