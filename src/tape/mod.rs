//! The tape: texts that were drawn from the target, with the probability of every token, and
//! what drafters say of them. It tells what any drafter, K and rule would accept, without
//! running them.
//!
//! Given a text that was drawn from the target, how far a draft survives is a function of the
//! text alone: of r = q/p at its tokens, both laws after all processors. Let a round begin at
//! token t. Token by token, a draft survives at least i tokens with probability
//! Π min(1, r_{t+j}) over j < i: rejection sampling emits x after exactly a accepted tokens with
//! probability Π_{i<a} min(p, q)(x_i) · (p − q)⁺(x_a), and the text with Π p(x_i). Block
//! verification accepts at least i tokens of a path with probability min(1, p_{i−1}·p/q), which
//! makes it min(R_{i−1}, Π r_{t+j}).
//!
//! [`forecast`] sums over all ways in which rounds can follow each other, so that its numbers
//! have no sampling noise beside that of the texts. `tests/it/tape_exact.rs` compares them with
//! the enumeration of the production code.
//!
//! `docs/tape.md` describes the file: one JSON object per line, appended as texts are recorded
//! and as drafters read them.

mod beliefs;
mod contents;
mod forecast;
mod format;
mod law;
mod leaving;
mod log;
mod odds;
mod read;
mod record;
mod score;
mod siblings;
mod starts;
mod teacher;

pub use beliefs::{DraftBeliefs, DrawnBeliefs};
pub use contents::Tape;
pub use forecast::{Forecast, TapeEnd, TapeLength, forecast};
pub use format::{
    DraftStart, TAPE_FORMAT, TapeDrafter, TapeHeader, TapeLine, TapeModel, TapeScore, TapeText,
};
pub use law::{ChainLaw, TokenOdds};
pub use log::{LoggedRound, TapeLog};
pub use odds::{TextOdds, nodes};
pub use read::{ReadTape, read_tape};
pub use record::{TapeRequest, record_text};
pub use score::{Beside, ScoredText, log_probs, score_text};
pub use siblings::{MOST_SIBLINGS, SiblingKind, SiblingScores};
pub use starts::draft_starts;
pub use teacher::Teacher;
#[cfg(feature = "serve")]
pub(crate) use teacher::prompt_rows;
pub(crate) use teacher::{laws, parts};
