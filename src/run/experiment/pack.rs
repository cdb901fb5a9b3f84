//! Moves rows to segments: those of long files during a run, all of them afterwards.
//!
//! A segment gets its name once it is complete and synced, and only then its rows leave the
//! text. A crash between the two leaves them in both, where readers take them once.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::lock::Lock;
use super::manifest::{Manifest, Status};
use crate::io::output::{Replacement, cannot_write, remove, write_whole};
use crate::io::terminal;
use crate::measure::rows::{
    GenerationRow, PositionRow, RawRow, RoundRow, SegmentWriter, TextRow, TraceRow, compressed,
    each_packed, each_unpacked_row, next_segment, salvage, segments, text_of,
};

/// The length in bytes above which the rows of a file move to a segment, unless a command is
/// given another one.
pub const PACK_ABOVE: u64 = 64 << 20;

/// Moves the rounds, positions, generations, texts and traces of a finished run to segments,
/// plain or compressed as they are.
///
/// # Errors
/// If the run is not finished, or another process is writing to it. Names the file that cannot
/// be read or written.
pub fn pack_run(folder: &Path) -> Result<()> {
    if Manifest::read(folder)?.status != Status::Finished {
        bail!("{} is not finished, so its rows stay where they are", folder.display());
    }
    let _lock = Lock::take(folder)?;
    pack::<RoundRow>(folder)?;
    pack::<PositionRow>(folder)?;
    pack::<GenerationRow>(folder)?;
    pack::<TextRow>(folder)?;
    pack::<TraceRow>(folder)
}

/// Moves all rows of the text to a new segment. They are of a kind that has columns.
pub(super) fn pack<R: RawRow>(folder: &Path) -> Result<()> {
    let segment = next_segment::<R>(folder)?;
    write_segment(&segment, |out| {
        each_unpacked_row(folder, |row: R| out.row(row).with_context(|| cannot_write(&segment)))?;
        Ok(())
    })?;
    // A crash may have left rows in the text that an earlier segment holds.
    let packed = !segments::<R>(folder)?.is_empty();
    let file = folder.join(R::FILE);
    if packed && R::is_json() {
        remove(&file).with_context(|| cannot_write(&file))?;
    } else if packed || R::NEEDED {
        write_whole(&file, &text_of::<R>(&[], true)?)?;
    }
    let old = compressed(&file);
    remove(&old).with_context(|| cannot_write(&old))
}

/// The writer of a segment that is not yet complete.
type PartialSegment<'a, R> = SegmentWriter<R, Replacement<'a>>;

/// Writes a segment, whole or not at all, with the rows that `fill` gives it. Without rows
/// there is none.
pub(super) fn write_segment<R: RawRow>(
    segment: &Path,
    fill: impl FnOnce(&mut PartialSegment<'_, R>) -> Result<()>,
) -> Result<()> {
    let cannot = || cannot_write(segment);
    let mut out = SegmentWriter::new(Replacement::begin(segment)?).with_context(cannot)?;
    fill(&mut out)?;
    if out.is_empty() {
        return remove(segment).with_context(cannot);
    }
    out.end().with_context(cannot)?.commit()
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
