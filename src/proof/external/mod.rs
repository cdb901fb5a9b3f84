//! Certifies verifiers of other programs.
//!
//! A verifier is any function that turns p, q and a draft into tokens and requests its random
//! decisions from the caller ([`ExternalVerifier`]). A verifier that decides only through
//! [`ExternalChance::choose`] is *enumerated*: every draft and every outcome of every decision. The
//! tokens of a round are completed to K + 1 by draws from the target, so their joint distribution
//! must equal the target's to 1e-12. Completing with further rounds would give the same verdict: if
//! a round followed by exact tokens is exact in every context, so is a round followed by rounds, by
//! induction. A verifier that requests uniforms is *sampled* instead, with a stated power.
//!
//! A wrong verifier is compared with known-wrong ones, which are enumerated in the same cases. The
//! one with the same distribution names the bug.
//!
//! ```
//! use specdec::proof::external::{
//!     ExternalChance, ExternalOptions, ExternalRound, ExternalVerdict, certify_external,
//! };
//!
//! let mut always_p = |round: &ExternalRound, chance: &mut dyn ExternalChance| {
//!     Ok(vec![chance.choose(&round.p[0])? as u32])
//! };
//! let options = ExternalOptions { vocab: 3, k: 1, ..ExternalOptions::default() };
//! let certificate = certify_external(&mut always_p, &options)?;
//! assert_eq!(certificate.verdict, ExternalVerdict::Exact);
//! # Ok::<(), specdec::Error>(())
//! ```

mod aimed;
mod case_list;
mod cases;
mod certificate;
mod certify;
mod draws;
mod naming;
mod options;
mod own;
mod pearson;
mod printed_certificate;
mod real_rows;
mod round;
mod round_distribution;
mod sample;
mod walk;

pub use certificate::{
    ExternalBug, ExternalCase, ExternalCertificate, ExternalSampling, ExternalVerdict,
    ExternalWitness,
};
pub use certify::{certify_external, certify_rows};
pub use options::{ExternalOptions, ExternalPrecision};
pub use own::OwnVerifier;
pub use real_rows::RealRows;
pub use round::{ExternalChance, ExternalRound, ExternalVerifier};
