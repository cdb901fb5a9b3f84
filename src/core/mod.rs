//! What everything else is built from: distributions and their arithmetic, sampling, randomness,
//! drafts as trees, rounds, settings, errors, time, and vectors of sixteen lanes. It knows of no
//! model.

pub mod chance;
pub mod clock;
pub mod distribution;
pub mod error;
// Most of it is used only by the engine's kernels.
#[cfg_attr(not(feature = "engine"), allow(dead_code))]
pub mod lanes;
pub mod params;
pub mod registry;
pub mod round;
pub mod sampling;
pub mod tree;
