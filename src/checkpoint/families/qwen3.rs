//! Qwen3 (Qwen team 2025, arXiv 2505.09388): every head of queries and keys has a norm.

use super::Family;
use super::base::{Defaults, base};
use super::keys::ConfigKeys;
use super::qwen2::set_upper_windows;
use crate::core::error::Error;
use crate::engine::decoder::{Biases, Config, HeadNorms};

/// The registry entry.
pub(super) const FAMILY: Family = Family { model_type: "qwen3", config };

const DEFAULTS: Defaults =
    Defaults { positions: 32_768, kv_heads: Some(32), head_dim: Some(128), ..Defaults::LLAMA };

fn config(keys: &ConfigKeys<'_>) -> Result<Config, Error> {
    let mut config = base(keys, &DEFAULTS)?;
    let attention = keys.flag("attention_bias")?.unwrap_or(false);
    config.biases = Biases { qkv: attention, output: attention, ..Biases::default() };
    config.head_norms = Some(HeadNorms::Each);
    set_upper_windows(keys, &mut config)?;
    Ok(config)
}
