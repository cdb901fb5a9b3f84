//! Phi-3 and Phi-4-mini (Abdin et al. 2024, arXiv 2404.14219; 2025, arXiv 2503.01743):
//! Llama with queries, keys and values in one tensor, and gate and up projection in
//! another.

use super::Family;
use super::base::{Defaults, base};
use super::keys::ConfigKeys;
use crate::core::error::Error;
use crate::engine::decoder::{Config, TensorNames};

/// The registry entry.
pub(super) const FAMILY: Family = Family { model_type: "phi3", config };

const DEFAULTS: Defaults = Defaults {
    positions: 4096,
    norm_eps: 1e-5,
    partial: true,
    original: Some(4096.0),
    ..Defaults::LLAMA
};

const NAMES: TensorNames = TensorNames {
    qkv: &["self_attn.qkv_proj"],
    gate_up: &["mlp.gate_up_proj"],
    ..TensorNames::LLAMA
};

fn config(keys: &ConfigKeys<'_>) -> Result<Config, Error> {
    let mut config = Config { names: NAMES, ..base(keys, &DEFAULTS)? };
    let window = keys.size("sliding_window")?;
    for layer in &mut config.layers {
        layer.window = window;
    }
    Ok(config)
}
