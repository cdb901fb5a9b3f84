//! Tokenizers of GGUF files.

mod byte_level;
mod hostile;
mod sentence_piece;
pub(crate) mod support;
