//! Reads a tape line by line.

use std::io::{BufRead, Read};
use std::path::Path;

use super::contents::Tape;
use super::format::TapeLine;
use crate::core::error::Error;

/// Maximum length of a line in bytes; a sequence of a million tokens needs less.
const MAX_LINE: u64 = 1 << 28;

/// A tape, and the length of its complete lines.
#[derive(Debug)]
pub struct ReadTape {
    /// The tape.
    pub tape: Tape,
    /// Bytes up to the end of the last complete line. A crash may leave a partial line after it,
    /// which is not part of the tape.
    pub whole: u64,
}

/// Reads a tape; messages call it `file`.
///
/// # Errors
/// If it cannot be read, or a line is malformed; names the line.
pub fn read_tape(mut lines: impl BufRead, file: &Path) -> Result<ReadTape, Error> {
    let mut read: Option<ReadTape> = None;
    let (mut line, mut whole) = (Vec::new(), 0);
    for number in 1.. {
        let place = |why: String| Error::file(file, format!("line {number}: {why}"));
        line.clear();
        let bytes = lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        let bytes = bytes.map_err(|error| Error::file(file, error))? as u64;
        if bytes == MAX_LINE {
            return Err(place(format!("longer than {MAX_LINE} bytes, the maximum")));
        }
        if line.last() != Some(&b'\n') {
            break;
        }
        whole += bytes;
        let parsed = serde_json::from_slice(&line);
        let parsed = parsed.map_err(|error| place(format!("not a line of a tape: {error}")))?;
        match (&mut read, parsed) {
            (None, TapeLine::Tape(header)) => {
                read = Some(ReadTape { tape: Tape::new(header).map_err(place)?, whole });
            }
            (None, _) => return Err(place("a tape begins with a line \"tape\"".to_owned())),
            (Some(read), line) => read.tape.add(line).map_err(place)?,
        }
    }
    let read = read.ok_or_else(|| Error::file(file, "it has no complete line of a tape"))?;
    Ok(ReadTape { whole, ..read })
}
