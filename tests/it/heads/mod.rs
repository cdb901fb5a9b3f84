//! Heads: predictors that read hidden states of the target.

#[cfg(feature = "engine")]
mod blocks;
#[cfg(feature = "engine")]
mod gguf;
#[cfg(feature = "engine")]
mod gguf_dflash;
#[cfg(feature = "engine")]
mod gguf_files;
mod history;
#[cfg(feature = "harness")]
mod named;
#[cfg(feature = "engine")]
mod native;
#[cfg(feature = "engine")]
mod parity;
#[cfg(feature = "peers")]
mod pickled;
#[cfg(feature = "harness")]
mod places;
#[cfg(feature = "harness")]
mod shipped;
mod toys;
#[cfg(feature = "harness")]
mod trained;
#[cfg(feature = "engine")]
mod wrong;
