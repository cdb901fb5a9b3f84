//! Observes a generation: counts its rounds and writes its text.

use std::io::{self, Write};

use super::paint::Painter;
use super::rounds::RoundLog;
use super::stats::RoundCounts;
use crate::core::error::Error;
use crate::core::round::RoundEvent;
use crate::io::shown;
use crate::method::decode::Observer;

/// Counts rounds and streams the text to `out`, if there is one.
#[derive(Debug)]
pub(super) struct Listener<'a, W> {
    out: Option<W>,
    painter: Option<Painter<'a>>,
    tally: RoundCounts,
    /// The rounds one by one, if they are asked for.
    log: Option<RoundLog>,
    failed: Option<io::Error>,
    at_line_start: bool,
    on_terminal: bool,
}

/// What a listener has heard.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) tally: RoundCounts,
    /// Empty if the text was written.
    pub(super) log: RoundLog,
    /// Whether the text ended its last line.
    pub(super) at_line_start: bool,
}

impl<'a, W: Write> Listener<'a, W> {
    /// A listener that writes to `out`, in colour if there is a painter; without `out`, it keeps the
    /// rounds. On a terminal, control characters are replaced and a newline is added at the end; a
    /// file or pipe gets the text unchanged.
    pub(super) fn new(out: Option<W>, painter: Option<Painter<'a>>, on_terminal: bool) -> Self {
        let (tally, failed) = (RoundCounts::default(), None);
        let log = out.is_none().then(RoundLog::default);
        Self { out, painter, tally, log, failed, at_line_start: true, on_terminal }
    }

    /// Ends the output, and returns what was heard.
    pub(super) fn finish(mut self) -> io::Result<Heard> {
        if self.on_terminal && !self.at_line_start {
            self.write("\n");
            self.at_line_start = true;
        }
        let (tally, log, at_line_start) =
            (self.tally, self.log.unwrap_or_default(), self.at_line_start);
        self.failed.map_or(Ok(Heard { tally, log, at_line_start }), Err)
    }

    fn write(&mut self, text: &str) {
        let Some(out) = self.out.as_mut().filter(|_| self.failed.is_none()) else { return };
        // Flushed so that readers see the text of a round when the round ends.
        self.failed = out.write_all(text.as_bytes()).and_then(|()| out.flush()).err();
    }
}

impl<W: Write> Observer for Listener<'_, W> {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        if self.failed.is_some() {
            return Err(Error::engine("standard output is closed"));
        }
        self.tally.add(event);
        if let Some(log) = &mut self.log {
            log.round(event)?;
        }
        self.painter.as_mut().map_or(Ok(()), |painter| painter.take_in(event))
    }

    fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.at_line_start = text.ends_with('\n');
        match self.painter.as_mut().map(|painter| painter.paint(text)) {
            Some(painted) => self.write(&painted),
            None if self.on_terminal => self.write(&shown::lines(text)),
            None => self.write(text),
        }
    }
}
