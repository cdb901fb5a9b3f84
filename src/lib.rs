//! specdec: a research harness for speculative decoding.
#[cfg(feature = "harness")]
pub mod bench;
pub mod chance;
#[cfg(feature = "harness")]
pub mod cli;
pub mod clock;
pub mod decode;
pub mod distribution;
pub mod draft;
pub mod exactness;
#[cfg(feature = "harness")]
pub mod experiment;
#[cfg(feature = "engine")]
pub mod input;
// The engine alone uses most of what its kernels are made of.
#[cfg_attr(not(feature = "engine"), allow(dead_code))]
pub mod lanes;
pub mod length;
pub mod model;
pub mod params;
#[cfg(feature = "engine")]
pub mod pool;
pub mod registry;
#[cfg(feature = "harness")]
pub mod report;
pub mod round;
pub mod sampling;
#[cfg(feature = "harness")]
pub mod shown;
#[cfg(feature = "harness")]
pub mod terminal;
pub mod tree;
pub mod verify;
