//! Heads: predictors that read hidden states of the target.

mod history;
#[cfg(feature = "engine")]
mod native;
#[cfg(feature = "engine")]
mod parity;
mod toys;
