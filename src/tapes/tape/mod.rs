//! Tapes: sequences that were drawn from the target, with the probability of every token and the
//! scores of drafters. A tape shows what any drafter, K and rule would accept, without running
//! them.
//!
//! Given a completion that was drawn from the target, the survival of a draft depends on the
//! completion alone: on r = q/p at its tokens, where p and q are the distributions after all
//! processors. Let a round begin at token t. Under rejection sampling, a draft survives at least i
//! tokens with probability Π min(1, r_{t+j}) over j < i: the rule emits x after exactly a accepted
//! tokens with probability Π_{i<a} min(p, q)(x_i) · (p − q)⁺(x_a), and the completion has
//! probability Π p(x_i). Block verification accepts at least i tokens of a path with probability
//! min(1, p_{i−1}·p/q), so R_i = min(R_{i−1}, Π r_{t+j}).
//!
//! [`forecast`] sums over all divisions of a completion into rounds, so its numbers have no
//! sampling noise except that of the completions. `tests/it/tape_exact.rs` compares them with the
//! enumeration of the production code.
//!
//! `docs/tape.md` describes the file: one JSON object per line, appended as sequences are recorded
//! and scored.

mod acceptance;
mod acceptance_shape;
mod beliefs;
mod contents;
mod diverging;
mod forecast;
mod format;
mod level;
mod log;
mod odds;
mod read;
mod record;
mod score;
mod siblings;
mod starts;
mod teacher;

pub use acceptance::{AcceptanceRule, TokenOdds};
pub use acceptance_shape::{LossPlace, ShareChange, ShareChanges, early_and_late};
pub use beliefs::{DraftBeliefs, DrawnBeliefs};
pub use contents::Tape;
pub use forecast::{Forecast, TapeEnd, TapeLength, forecast};
pub use format::{
    DraftPasses, DraftStart, TAPE_FORMAT, TapeDrafter, TapeHeader, TapeLine, TapeModel, TapeScore,
    TapeSequence,
};
pub use level::{DRAWS, LevelScores};
pub use log::{LoggedRound, TapeLog};
pub use odds::{SequenceOdds, nodes};
pub use read::{ReadTape, read_tape};
pub use record::{TapeRequest, record_sequence};
pub use score::{TargetReader, log_probs, score_logits, score_sequence};
pub use siblings::{MAX_SIBLINGS, SiblingKind, SiblingScores};
pub use starts::draft_starts;
pub use teacher::Teacher;
#[cfg(feature = "serve")]
pub(crate) use teacher::prompt_rows;
pub(crate) use teacher::{distributions, parts};
