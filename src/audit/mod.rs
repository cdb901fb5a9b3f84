//! Whether completions were drawn from the target's distribution, and which known bug explains them
//! if not.
//!
//! Every token is an observation: given the tokens before it, an exact decoder draws it from p, the
//! target's distribution after all processors, which a teacher-forced pass computes. No reference
//! sample is needed. The audit bets against this hypothesis. For each bug that speculative decoders
//! have had ([`audited`](crate::bugs::audited)), one bet expects the distribution that the bug produces. Completions do not
//! show where rounds begin, so `positions.rs` averages over the possibilities. Another bet expects other
//! sampling settings than the stated ones ([`SettingsBet`]). Learning bets use the tokens seen so far ([`UNKNOWN_BUGS`]). No bet is expected to grow if the decoder is exact
//! ([`Wealth`]), so an audit may stop at any time. The winning bet names the bug. Rounds that a
//! decoder reports are observations, too ([`RoundAudit`]).

mod bet;
mod copies;
mod distributions;
mod drafted;
mod groups;
mod impossible;
mod learnt;
mod placed;
mod positions;
mod rates;
mod read;
mod rounds;
mod settings;
mod shape;
mod tokens;
mod unknown;
mod verdict;
mod wealth;

pub use bet::Bet;
pub use copies::Copies;
pub use distributions::SequenceDists;
pub use drafted::{AuditedHead, DraftedOdds};
pub use impossible::ImpossibleToken;
pub use learnt::LearntBet;
pub use read::{AuditReader, AuditedDraft, AuditedSequence};
pub use rounds::{AcceptanceAt, ReportedRound, RoundAudit, RoundVerdict};
pub use settings::{OTHER_SETTINGS, SettingsBet};
pub use shape::{ReportedCounts, RoundShape};
pub use tokens::TokenAudit;
pub use unknown::{UNKNOWN_BUGS, UnknownBug};
pub use verdict::{AuditLimits, AuditVerdict, AuditedBug};
pub use wealth::{Wealth, log_mean_exp};
