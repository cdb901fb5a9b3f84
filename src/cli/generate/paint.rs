//! Colours each token by its origin (`--show-draft`).

use std::fmt::Write;

use super::rounds::RoundEnd;
use crate::core::error::Error;
use crate::core::round::RoundEvent;
use crate::io::shown;
use crate::method::decode::TextStream;
use crate::model::Codec;

/// The origin of a committed token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// Drafted and accepted.
    Accepted,
    /// Drawn after a rejection.
    Corrected,
    /// Drawn after a fully accepted draft.
    Bonus,
    /// Drawn in a round without a draft.
    Plain,
}

impl Mark {
    /// The mark of the `i`-th token that a round emitted.
    fn of(event: &RoundEvent<'_>, i: usize) -> Self {
        match RoundEnd::of(event) {
            _ if i < event.verdict.path.len() => Self::Accepted,
            RoundEnd::Corrected => Self::Corrected,
            RoundEnd::Bonus => Self::Bonus,
            RoundEnd::Plain | RoundEnd::Stopped => Self::Plain,
        }
    }

    /// The escape sequence of its colour; `None` for the default colour.
    fn escape(self) -> Option<&'static str> {
        match self {
            Self::Accepted => Some("\x1b[32m"),
            // Also underlined, so that a corrected space is visible.
            Self::Corrected => Some("\x1b[4;31m"),
            Self::Bonus => Some("\x1b[36m"),
            Self::Plain => None,
        }
    }
}

const RESET: &str = "\x1b[0m";

/// The legend, in colour.
pub(super) fn legend() -> String {
    let show = |mark: Mark, name| format!("{}{name}{RESET}", mark.escape().unwrap_or_default());
    format!(
        "{} (drafted and accepted), {} (drawn after a rejection), {} (drawn after a fully \
         accepted draft), plain (drawn without a draft)",
        show(Mark::Accepted, "accepted"),
        show(Mark::Corrected, "corrected"),
        show(Mark::Bonus, "bonus"),
    )
}

/// Colours the text by the origin of its tokens. A character that spans several tokens
/// belongs to the one that completes it.
#[derive(Debug)]
pub(super) struct Painter<'a> {
    stream: TextStream<'a>,
    /// The end of each token's text, in bytes, ascending.
    ends: Vec<(usize, Mark)>,
    /// Bytes painted so far.
    painted: usize,
}

impl<'a> Painter<'a> {
    /// A painter for text of this codec.
    pub(super) fn new(codec: &'a dyn Codec) -> Self {
        Self { stream: TextStream::new(codec), ends: Vec::new(), painted: 0 }
    }

    /// Records the tokens of a round.
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
            // Adjacent tokens of the same origin share an escape sequence. Text that the
            // stream holds back until its end belongs to the last token.
            let here = self.ends.partition_point(|&(end, _)| end <= at);
            let mark = self.ends.get(here).or(self.ends.last()).map_or(Mark::Plain, |e| e.1);
            let same = self.ends[here..].iter().take_while(|e| e.1 == mark).last();
            let length = same.map_or(rest.len(), |&(end, _)| end - at).min(rest.len());
            let (piece, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
            // Coloured output is for display, so its text is made safe to display.
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
