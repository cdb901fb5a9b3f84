//! gpt-oss (OpenAI 2025, arXiv 2508.10925): experts in all layers with a clamped activation, windows
//! on every second layer, and sinks of attention.

use super::Family;
use super::base::{Defaults, base, set_windows};
use super::experts::ExpertKeys;
use super::keys::ConfigKeys;
use crate::core::error::Error;
use crate::engine::decoder::{Activation, Biases, Config, TensorNames};

/// The registry entry.
pub(super) const FAMILY: Family = Family { model_type: "gpt_oss", config };

const DEFAULTS: Defaults = Defaults {
    positions: 131_072,
    norm_eps: 1e-5,
    theta: 150_000.0,
    heads: Some(64),
    kv_heads: Some(8),
    head_dim: Some(64),
    ..Defaults::LLAMA
};

const EXPERTS: ExpertKeys = ExpertKeys {
    count: (&["num_local_experts"], 128),
    used: 4,
    intermediate: ("intermediate_size", Some(2880)),
};

const NAMES: TensorNames =
    TensorNames { router: "mlp.router", sinks: Some("self_attn.sinks"), ..TensorNames::LLAMA };

fn config(keys: &ConfigKeys<'_>) -> Result<Config, Error> {
    let mut config = base(keys, &DEFAULTS)?;
    if keys.table("rope_parameters")?.is_none() {
        keys.required("rope_scaling", keys.table("rope_scaling")?)?;
    }
    let attention = keys.flag("attention_bias")?.unwrap_or(true);
    config.biases = Biases { qkv: attention, output: attention, mlp: false, experts: true };
    config.names = NAMES;
    config.experts = Some(EXPERTS.read(keys, true)?);
    let alpha = keys.positive("swiglu_alpha")?.unwrap_or(1.702) as f32;
    let limit = keys.positive("swiglu_limit")?.unwrap_or(7.0) as f32;
    config.activation = Activation::Clamped { alpha, limit };
    let window = keys.size_or_none("sliding_window", 128)?;
    set_windows(keys, &mut config, window, |layer| layer.is_multiple_of(2))?;
    for layer in &mut config.layers {
        layer.sparse = true;
    }
    Ok(config)
}
