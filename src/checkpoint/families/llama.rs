//! Llama 2, 3 and 3.x (Touvron et al. 2023, arXiv 2307.09288; Grattafiori et al. 2024,
//! arXiv 2407.21783), and what has their shape, such as SmolLM2.

use super::Family;
use super::base::{Defaults, base};
use super::keys::ConfigKeys;
use crate::core::error::Error;
use crate::engine::decoder::{Biases, Config};

/// The registry entry.
pub(super) const FAMILY: Family = Family { model_type: "llama", config };

fn config(keys: &ConfigKeys<'_>) -> Result<Config, Error> {
    let attention = keys.flag("attention_bias")?.unwrap_or(false);
    let mlp = keys.flag("mlp_bias")?.unwrap_or(false);
    let biases = Biases { qkv: attention, output: attention, mlp, ..Biases::default() };
    Ok(Config { biases, ..base(keys, &Defaults::LLAMA)? })
}
