//! Gemma 2 (Gemma team 2024, arXiv 2408.00118): norms on both sides of attention and
//! feed-forward blocks, soft caps, and a window in every other layer.

use super::Family;
use super::base::{Defaults, base, set_windows};
use super::keys::ConfigKeys;
use crate::core::error::Error;
use crate::engine::decoder::{Activation, Biases, Config, NORMS_AROUND};

/// The registry entry.
pub(super) const FAMILY: Family = Family { model_type: "gemma2", config };

pub(super) const DEFAULTS: Defaults = Defaults {
    positions: 8192,
    tied: true,
    kv_heads: Some(4),
    head_dim: Some(256),
    activation: ("hidden_activation", Activation::GeluTanh),
    ..Defaults::LLAMA
};

fn config(keys: &ConfigKeys<'_>) -> Result<Config, Error> {
    let mut config = with_both_norms(keys, &DEFAULTS)?;
    let cap = |key, default| {
        let cap = keys.positive_or_none(key, default)?;
        Ok::<_, Error>(cap.map(|cap| cap as f32))
    };
    config.attention_softcap = cap("attn_logit_softcapping", 50.0)?;
    config.final_softcap = cap("final_logit_softcapping", 30.0)?;
    let window = keys.size_or_none("sliding_window", 4096)?;
    set_windows(keys, &mut config, window, |layer| layer % 2 == 0)?;
    Ok(config)
}

/// What Gemma 2 and 3 have in common.
pub(super) fn with_both_norms(keys: &ConfigKeys<'_>, defaults: &Defaults) -> Result<Config, Error> {
    if keys.flag("use_bidirectional_attention")?.unwrap_or(false) {
        return Err(keys.fault("use_bidirectional_attention = true is not supported"));
    }
    let mut config = base(keys, defaults)?;
    config.names.norms = NORMS_AROUND;
    config.norm_offset = 1.0;
    config.embedding_scale = (config.hidden as f64).sqrt() as f32;
    let scalar = keys.positive("query_pre_attn_scalar")?.unwrap_or(256.0);
    config.attention_scale = (1.0 / scalar.sqrt()) as f32;
    let attention = keys.flag("attention_bias")?.unwrap_or(false);
    config.biases = Biases { qkv: attention, output: attention, ..Biases::default() };
    Ok(config)
}
