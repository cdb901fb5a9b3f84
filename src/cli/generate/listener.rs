//! Listens to a generation: counts its rounds and writes its text.

use std::io::{Error, Write};

use super::paint::Painter;
use super::stats::Tally;
use crate::decode::Observer;
use crate::model::ModelError;
use crate::round::RoundEvent;

/// Counts, and streams to `out` if there is one.
#[derive(Debug)]
pub(super) struct Listener<'a, W> {
    out: Option<W>,
    painter: Option<Painter<'a>>,
    tally: Tally,
    failed: Option<Error>,
    at_line_start: bool,
}

impl<'a, W: Write> Listener<'a, W> {
    /// A listener that writes to `out`, in colour if there is a painter.
    pub(super) fn new(out: Option<W>, painter: Option<Painter<'a>>) -> Self {
        Self { out, painter, tally: Tally::default(), failed: None, at_line_start: false }
    }

    /// What was counted; ends the last line where `newline` asks for it.
    ///
    /// # Errors
    /// If the text could not be written.
    pub(super) fn finish(mut self, newline: bool) -> Result<Tally, Error> {
        if newline && !self.at_line_start {
            self.write("\n");
        }
        self.failed.map_or(Ok(self.tally), Err)
    }

    fn write(&mut self, text: &str) {
        let Some(out) = self.out.as_mut().filter(|_| self.failed.is_none()) else { return };
        // Flushed at once: a reader sees a round's text when the round is over.
        self.failed = out.write_all(text.as_bytes()).and_then(|()| out.flush()).err();
    }
}

impl<W: Write> Observer for Listener<'_, W> {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), ModelError> {
        if self.failed.is_some() {
            return Err(ModelError::new("standard output is closed"));
        }
        self.tally.add(event);
        self.painter.as_mut().map_or(Ok(()), |painter| painter.take_in(event))
    }

    fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.at_line_start = text.ends_with('\n');
        match self.painter.as_mut().map(|painter| painter.paint(text)) {
            Some(painted) => self.write(&painted),
            None => self.write(text),
        }
    }
}
