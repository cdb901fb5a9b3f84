//! Implementations of others, which tests hold the engines of specdec against.

#[cfg(feature = "candle-transformers")]
pub use candle_transformers;
