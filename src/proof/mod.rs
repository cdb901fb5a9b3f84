//! Proves exactness by enumeration.
//!
//! [`enumerate()`] runs the *production* round with every outcome of every draw and yields the
//! exact joint distribution of N tokens. It must equal [`target_distribution`], that of ancestral
//! sampling from the processed target. [`DrawLog`] and [`Fit`] detect misuse of the generator, which
//! enumeration cannot. [`ChainCase`] checks the expected acceptance, which the distribution does
//! not show. These checks must refute the known-wrong methods of [`crate::bugs`]. [`certify`] runs
//! all checks and returns a [`Certificate`]. [`enumerate_together`] enumerates rounds that several
//! requests share. [`external`] certifies other programs' verifiers.

mod bits;
#[cfg(feature = "engine")]
mod cache_clones;
mod cells;
mod certificate;
mod certificate_tables;
#[cfg(feature = "harness")]
mod certified;
mod certify;
mod closed;
mod draw_log;
mod enumerate;
pub mod external;
mod fitted;
mod forms;
mod joint;
mod judge;
mod kind;
mod methods;
mod monte_carlo;
mod pair_fit;
mod pairwise;
mod place;
mod probe;
mod reading;
#[cfg(feature = "engine")]
mod real;
mod reference;
mod refute;
mod replay;
mod scheduler;
mod settings;
mod together;
#[cfg(feature = "engine")]
mod two_tokens;
mod watch;

pub use certificate::{Certificate, CertificateCell, PairFit, RealFit};
pub use certify::{CertifyOptions, CertifyProgress, certify};
pub use closed::ChainCase;
pub use draw_log::{DrawFindings, DrawLog};
pub use enumerate::{Enumeration, enumerate};
pub use forms::ClosedForm;
pub use joint::{Gap, JointDistribution, TOLERANCE, target_distribution};
pub use kind::{CellKind, Kinds};
pub use monte_carlo::{Fit, LEVEL};
pub use pair_fit::{PAIR_TOKENS, PairSample};
pub use probe::{DraftDistributions, Probe, Tally, TargetPass, TargetRows};
pub use reference::{TableRows, draft_model, draft_rows};
pub use refute::{CHECKS, MutantReport, refute};
pub use replay::{Replay, audit, first_difference, replay, sample};
pub use scheduler::{
    DraftedToken, RoundOfDrafts, Scheduler, SchedulerReport, SchedulerVerdict, certify_scheduler,
};
pub use together::{
    RequestChance, SharedEnumeration, WalkedChance, drawn_apart, enumerate_together, product,
};
