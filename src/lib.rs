//! specdec: a research harness for speculative decoding.
pub mod chance;
pub mod cli;
pub mod clock;
pub mod decode;
pub mod dist;
pub mod draft;
pub mod exactness;
pub mod experiment;
pub mod length;
pub mod model;
pub mod registry;
pub mod report;
pub mod round;
pub mod sampling;
pub mod tree;
pub mod verify;
