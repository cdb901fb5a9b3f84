//! Files that the user names, and what is written for the user: safely, whole or not at all. It
//! knows nothing of decoding.

#[cfg(feature = "harness")]
pub(crate) mod fold;
pub mod input;
#[cfg(feature = "harness")]
pub(crate) mod output;
#[cfg(feature = "harness")]
pub mod shown;
#[cfg(feature = "harness")]
pub mod terminal;
