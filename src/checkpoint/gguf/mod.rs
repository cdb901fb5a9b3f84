//! GGUF files, versions 2 and 3, as checkpoints.
//!
//! [`GgufFile`] is a file, or several that belong together: metadata and tensors.
//! [`GgufCheckpoint`] is the model in it: the configuration and the tensors that the same
//! model has as a Hugging Face checkpoint.

mod architecture;
mod checkpoint;
mod config;
mod cursor;
mod dflash;
mod eagle3;
mod file;
mod head;
mod header;
mod keys;
mod metadata;
mod names;
mod rope;
mod sizes;
mod split;
mod windows;

pub use crate::engine::blocks::{RawRows, TensorKind};
pub use checkpoint::GgufCheckpoint;
pub(super) use checkpoint::is_head;
pub use file::GgufFile;
pub use header::StoredTensor;
pub use metadata::{Metadata, MetadataList, MetadataValue, Scalars};
