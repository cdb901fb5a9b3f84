//! Qwen2 and Qwen2.5 (Qwen team 2024, arXiv 2412.15115): queries, keys and values have a
//! bias.

use super::Family;
use super::base::{Defaults, base, set_windows};
use super::keys::ConfigKeys;
use crate::core::error::Error;
use crate::engine::decoder::{Biases, Config};

/// The registry entry.
pub(super) const FAMILY: Family = Family { model_type: "qwen2", config };

const DEFAULTS: Defaults = Defaults { positions: 32_768, kv_heads: Some(32), ..Defaults::LLAMA };

fn config(keys: &ConfigKeys<'_>) -> Result<Config, Error> {
    let mut config = base(keys, &DEFAULTS)?;
    config.biases = Biases { qkv: true, ..Biases::default() };
    set_upper_windows(keys, &mut config)?;
    Ok(config)
}

/// Gives the upper layers a window if `use_sliding_window` says so.
pub(super) fn set_upper_windows(keys: &ConfigKeys<'_>, config: &mut Config) -> Result<(), Error> {
    if !keys.flag("use_sliding_window")?.unwrap_or(false) {
        return Ok(());
    }
    let window = keys.size_or_none("sliding_window", 4096)?;
    let first = keys.count("max_window_layers")?.unwrap_or(28);
    set_windows(keys, config, window, |layer| layer >= first)
}
