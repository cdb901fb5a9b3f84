//! The proof machinery: exactness by enumeration, as a library.
//!
//! [`enumerate()`] walks the *production* round through every outcome of every
//! draw and yields the exact joint distribution of N tokens, which must equal
//! [`target_distribution`], ancestral sampling from the processed target.
//! What enumeration cannot see is covered by [`Audit`] and [`Fit`]: misuse of
//! the generator. What a distribution cannot show is covered by [`ChainCase`]: speed.
//! That all of this would notice a mistake is shown by [`mutants`]:
//! known-wrong methods that must be refuted.
//! [`certify`] runs everything and returns a [`Certificate`].
//! [`enumerate_together`] walks rounds that several requests share.
//! [`external`] does the same for verifiers that are not ours.

mod audit;
mod bits;
mod cells;
mod certificate;
#[cfg(feature = "harness")]
mod certified;
mod certify;
mod closed;
mod enumerate;
pub mod external;
mod fitted;
#[cfg(feature = "engine")]
mod forks;
mod forms;
mod joint;
mod judge;
mod kind;
mod methods;
mod monte_carlo;
pub mod mutants;
mod pair_fit;
mod pairwise;
mod place;
mod probe;
mod reading;
#[cfg(feature = "engine")]
mod real;
mod reference;
mod replay;
mod settings;
mod table;
mod together;
#[cfg(feature = "engine")]
mod two_tokens;
mod watch;

pub use audit::{Audit, AuditReport};
pub use certificate::{Certificate, CertificateCell, CertificateVerdict, PairFit, RealFit};
#[cfg(feature = "harness")]
pub use certified::{Certified, certified};
pub use certify::{CertifyOptions, CertifyProgress, certify};
pub use closed::{ChainCase, Rule};
pub use enumerate::{Enumeration, enumerate};
pub use forms::ClosedForm;
pub use joint::{Gap, JointDistribution, TOLERANCE, target_distribution};
pub use kind::{CellKind, Kinds};
pub use monte_carlo::{Fit, LEVEL};
pub use pair_fit::{PAIR_TEXT, PairSample};
pub use probe::{DraftDistributions, Probe, Tally, TargetPass, TargetRows};
pub use reference::{TableRows, draft_model, draft_rows};
pub use replay::{Replay, audit, first_difference, replay, sample};
pub use together::{
    LaneChance, SharedEnumeration, WalkedChance, drawn_apart, enumerate_together, product,
};
