//! Mistral 7B and Nemo (Jiang et al. 2023, arXiv 2310.06825): the first version's layers
//! have a window; a file may name the layers that have one (`layer_types`, as Ministral does).

use super::Family;
use super::base::{Defaults, base, set_windows};
use super::keys::ConfigKeys;
use crate::core::error::Error;
use crate::engine::decoder::Config;

/// The registry entry.
pub(super) const FAMILY: Family = Family { model_type: "mistral", config };

const DEFAULTS: Defaults = Defaults { positions: 131_072, kv_heads: Some(8), ..Defaults::LLAMA };

fn config(keys: &ConfigKeys<'_>) -> Result<Config, Error> {
    let mut config = base(keys, &DEFAULTS)?;
    let window = keys.size_or_none("sliding_window", 4096)?;
    set_windows(keys, &mut config, window, |_| true)?;
    Ok(config)
}
