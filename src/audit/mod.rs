//! Whether texts were drawn from the target's law, and which known bug explains them if not.
//!
//! Every token of a text is an observation: given the tokens before it, an exact decoder draws it
//! from p, the target's law after all processors, which a teacher-forced pass tells. No reference
//! sample is needed. Against this hypothesis bets are placed: one for each bug that speculative
//! decoders have had ([`BUGS`]), on the law that its texts have (`places.rs` for what they
//! hide: where rounds begin), and some on whatever the tokens before have shown
//! ([`UNKNOWN_BUGS`]). Under exactness no bet grows ([`Wealth`]), so that an audit may stop at any
//! time; the bet that wins names the bug. Rounds that a decoder tells are observations, too
//! ([`RoundAudit`]).

mod bet;
mod bug_law;
mod bugs;
mod groups;
mod impossible;
mod laws;
mod learnt;
mod masses;
mod noise;
mod placed;
mod places;
mod read;
mod rounds;
mod shape;
mod tokens;
mod uniforms;
mod unknown;
mod verdict;
mod wealth;

pub use bet::Bet;
pub use bug_law::BugLaw;
pub use bugs::{BUGS, KnownBug};
pub use impossible::ImpossibleToken;
pub use laws::{PlaceLaws, TextLaws};
pub use learnt::LearntBet;
pub use masses::PlaceMasses;
pub use read::{AuditReader, AuditedDraft, AuditedText};
pub use rounds::{AcceptanceAt, RoundAudit, RoundVerdict, ToldRound};
pub use shape::{RoundShape, ToldCounts};
pub use tokens::TokenAudit;
pub use unknown::{UNKNOWN_BUGS, UnknownBug};
pub use verdict::{AuditLimits, AuditVerdict, AuditedBug};
pub use wealth::{Wealth, log_mean_exp};
