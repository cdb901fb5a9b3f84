//! Writing to standard output and error without panics.

use std::fmt::Display;
use std::io::Write;

use anyhow::{Context, Result};
use serde::Serialize;

/// Writes to standard output and flushes.
///
/// # Errors
/// If standard output is closed or full.
pub(super) fn write(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).context("cannot write to standard output")
}

/// Writes one line of text.
///
/// # Errors
/// As [`write`].
pub(super) fn line(text: impl Display) -> Result<()> {
    write(format!("{text}\n").as_bytes())
}

/// Writes one JSON value on one line.
///
/// # Errors
/// As [`write`].
pub(super) fn write_json(value: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(value).context("cannot write JSON")?;
    line.push(b'\n');
    write(&line)
}

/// Says something on standard error; if nobody listens, so be it.
pub(super) fn note(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Whether an error only says that the reader of our output went away, as
/// `head` does: that ends the command and is no failure.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}
