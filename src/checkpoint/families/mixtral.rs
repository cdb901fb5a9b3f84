//! Mixtral (Jiang et al. 2024, arXiv 2401.04088): Mistral with experts in all layers.

use super::Family;
use super::base::{Defaults, base};
use super::experts::ExpertKeys;
use super::keys::ConfigKeys;
use crate::core::error::Error;
use crate::engine::decoder::{Config, TensorNames};

/// The registry entry.
pub(super) const FAMILY: Family = Family { model_type: "mixtral", config };

const DEFAULTS: Defaults = Defaults {
    positions: 131_072,
    norm_eps: 1e-5,
    theta: 1e6,
    kv_heads: Some(8),
    ..Defaults::LLAMA
};

const EXPERTS: ExpertKeys = ExpertKeys {
    count: (&["num_local_experts"], 8),
    used: 2,
    intermediate: ("intermediate_size", None),
};

const NAMES: TensorNames = TensorNames {
    router: "block_sparse_moe.gate",
    experts: "block_sparse_moe.experts",
    expert_gate_up: &["w1", "w3"],
    expert_down: "w2",
    ..TensorNames::LLAMA
};

fn config(keys: &ConfigKeys<'_>) -> Result<Config, Error> {
    let mut config = base(keys, &DEFAULTS)?;
    config.names = NAMES;
    config.experts = Some(EXPERTS.read(keys, true)?);
    let window = keys.size("sliding_window")?;
    for layer in &mut config.layers {
        layer.sparse = true;
        layer.window = window;
    }
    Ok(config)
}
