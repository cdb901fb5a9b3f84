//! Qwen3-MoE (Qwen team 2025, arXiv 2505.09388): Qwen3 with experts in all layers or some.

use super::Family;
use super::base::{Defaults, base};
use super::experts::ExpertKeys;
use super::keys::ConfigKeys;
use crate::core::error::Error;
use crate::engine::decoder::{Biases, Config, HeadNorms};

/// The registry entry.
pub(super) const FAMILY: Family = Family { model_type: "qwen3_moe", config };

const DEFAULTS: Defaults = Defaults { positions: 32_768, kv_heads: Some(4), ..Defaults::LLAMA };

const EXPERTS: ExpertKeys = ExpertKeys {
    // Newer versions of transformers write the second.
    count: (&["num_experts", "num_local_experts"], 128),
    used: 8,
    intermediate: ("moe_intermediate_size", Some(768)),
};

fn config(keys: &ConfigKeys<'_>) -> Result<Config, Error> {
    let mut config = base(keys, &DEFAULTS)?;
    let attention = keys.flag("attention_bias")?.unwrap_or(false);
    config.biases = Biases { qkv: attention, output: attention, ..Biases::default() };
    config.head_norms = Some(HeadNorms::Each);
    config.experts = Some(EXPERTS.read(keys, keys.flag("norm_topk_prob")?.unwrap_or(false))?);
    let dense = keys.counts("mlp_only_layers")?.unwrap_or_default();
    let step = keys.size("decoder_sparse_step")?.unwrap_or(1);
    // Unlike in Qwen3, a window is that of all layers.
    let has_window = keys.flag("use_sliding_window")?.unwrap_or(false);
    let window = keys.size_or_none("sliding_window", 4096)?.filter(|_| has_window);
    for (number, layer) in config.layers.iter_mut().enumerate() {
        layer.sparse = !dense.contains(&number) && (number + 1).is_multiple_of(step);
        layer.window = window;
    }
    Ok(config)
}
