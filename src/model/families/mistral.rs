//! Mistral 7B and Nemo (Jiang et al. 2023, arXiv 2310.06825): the first version's layers
//! have a window.

use super::Family;
use super::base::{Defaults, base};
use super::keys::ConfigKeys;
use crate::error::Error;
use crate::model::decoder::Config;

/// The registry entry.
pub(super) const FAMILY: Family = Family { model_type: "mistral", config };

const DEFAULTS: Defaults = Defaults { positions: 131_072, kv_heads: Some(8), ..Defaults::LLAMA };

fn config(keys: &ConfigKeys<'_>) -> Result<Config, Error> {
    let mut config = base(keys, &DEFAULTS)?;
    let window = keys.size_or_none("sliding_window", 4096)?;
    config.layers.iter_mut().for_each(|layer| layer.window = window);
    Ok(config)
}
