//! OLMo 2 (OLMo team 2025, arXiv 2501.00656): norms only of what attention and feed-forward
//! blocks add, and of all queries and all keys together.

use super::Family;
use super::base::{Defaults, base};
use super::keys::ConfigKeys;
use crate::core::error::Error;
use crate::engine::decoder::{Biases, Config, HeadNorms, NORMS_AFTER};

/// The registry entry.
pub(super) const FAMILY: Family = Family { model_type: "olmo2", config };

const DEFAULTS: Defaults = Defaults { norm_eps: 1e-5, ..Defaults::LLAMA };

fn config(keys: &ConfigKeys<'_>) -> Result<Config, Error> {
    let mut config = base(keys, &DEFAULTS)?;
    config.names.norms = NORMS_AFTER;
    config.head_norms = Some(HeadNorms::Together);
    let attention = keys.flag("attention_bias")?.unwrap_or(false);
    config.biases = Biases { qkv: attention, output: attention, ..Biases::default() };
    Ok(config)
}
