//! Checkpoints: models, tokenizers, chat templates and vocabularies from Hugging Face folders and
//! GGUF files, by name or path. It knows how to build a model on an engine.

pub(crate) mod alphabet;
pub(crate) mod build;
#[cfg(feature = "harness")]
pub(crate) mod catalog;
pub(crate) mod chat;
pub(crate) mod families;
pub(crate) mod files;
pub(crate) mod ggml_vocabulary;
pub mod gguf;
pub(crate) mod gguf_model;
pub(crate) mod heads;
pub(crate) mod hf;
pub(crate) mod hf_model;
#[cfg(feature = "harness")]
pub(crate) mod hub;
pub(crate) mod layout;
pub(crate) mod load;
pub mod pair;
pub(crate) mod sentence_piece;
pub(crate) mod shapes;
#[cfg(feature = "harness")]
pub(crate) mod summary;

#[cfg(feature = "harness")]
pub use catalog::{Catalog, KnownModel};
pub use chat::{
    ChatTemplate, ChatText, RENDER_CHAT, RENDER_LATE, RENDER_MEMORY, RENDER_TIME, render_by,
    render_chat,
};
pub use ggml_vocabulary::GgmlVocabulary;
#[cfg(feature = "harness")]
pub(crate) use heads::{fits as head_fits, is_head};
#[cfg(feature = "harness")]
pub use hub::{HubCache, HubName};
pub use load::load;
#[cfg(feature = "harness")]
pub use load::summarise;
pub use shapes::{ModelShape, SHAPES, SMALL_PAIR};
#[cfg(feature = "harness")]
pub use summary::ModelSummary;
