//! Colours for what became of each token (`--show-draft`).

use std::fmt::Write;

use crate::decode::TextStream;
use crate::error::Error;
use crate::model::Codec;
use crate::round::RoundEvent;
use crate::shown;

/// How a committed token came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// Drafted and accepted.
    Accepted,
    /// Drawn after a rejection.
    Corrected,
    /// Drawn after a draft that was accepted to its end.
    Bonus,
    /// Drawn in a round without a draft.
    Plain,
}

impl Mark {
    /// The mark of the `i`-th token that a round emitted.
    fn of(event: &RoundEvent<'_>, i: usize) -> Self {
        let path = &event.verdict.path;
        if i < path.len() {
            Self::Accepted
        } else if event.draft.is_empty() {
            Self::Plain
        } else if event.draft.children(path.last().copied()).next().is_some() {
            Self::Corrected
        } else {
            Self::Bonus
        }
    }

    /// The escape that switches its colour on.
    fn escape(self) -> Option<&'static str> {
        match self {
            Self::Accepted => Some("\x1b[32m"),
            // Underlined too, so that a corrected space can be seen.
            Self::Corrected => Some("\x1b[4;31m"),
            Self::Bonus => Some("\x1b[36m"),
            Self::Plain => None,
        }
    }
}

const RESET: &str = "\x1b[0m";

/// What the colours mean, in colour.
pub(super) fn legend() -> String {
    let show = |mark: Mark, name| format!("{}{name}{RESET}", mark.escape().unwrap_or_default());
    format!(
        "{} (drafted and kept), {} (drawn after a rejection), {} (drawn after a wholly accepted \
         draft), plain (nothing was drafted)",
        show(Mark::Accepted, "accepted"),
        show(Mark::Corrected, "corrected"),
        show(Mark::Bonus, "bonus"),
    )
}

/// Knows which part of the text came from which kind of token. A character
/// that several tokens share belongs to the one that completes it.
#[derive(Debug)]
pub(super) struct Painter<'a> {
    stream: TextStream<'a>,
    /// Where each token's text ends, in bytes, ascending.
    ends: Vec<(usize, Mark)>,
    /// Bytes painted so far.
    painted: usize,
}

impl<'a> Painter<'a> {
    /// A painter of text in this codec.
    pub(super) fn new(codec: &'a dyn Codec) -> Self {
        Self { stream: TextStream::new(codec), ends: Vec::new(), painted: 0 }
    }

    /// Takes in the tokens of a round.
    ///
    /// # Errors
    /// If a token is unknown to the codec.
    pub(super) fn take_in(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        for (i, &token) in event.emitted.iter().enumerate() {
            self.stream.push(token)?;
            self.ends.push((self.stream.text().len(), Mark::of(event, i)));
        }
        Ok(())
    }

    /// The next piece of the generation's text, in colour.
    pub(super) fn paint(&mut self, text: &str) -> String {
        let mut painted = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let at = self.painted;
            // Neighbours of one kind share their escapes; what the stream
            // gives out only at its end belongs to the last token.
            let here = self.ends.partition_point(|&(end, _)| end <= at);
            let mark = self.ends.get(here).or(self.ends.last()).map_or(Mark::Plain, |e| e.1);
            let same = self.ends[here..].iter().take_while(|e| e.1 == mark).last();
            let length = same.map_or(rest.len(), |&(end, _)| end - at).min(rest.len());
            let (piece, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
            // Colours are looked at, and so is the text between them.
            let visible = shown::lines(piece);
            // Writing to a string cannot fail.
            let _ = match mark.escape() {
                Some(on) => write!(painted, "{on}{visible}{RESET}"),
                None => write!(painted, "{visible}"),
            };
            self.painted += piece.len();
            rest = after;
        }
        painted
    }
}
