//! GPT-2 (Radford et al. 2019): LayerNorm, learned positions, and feed-forward blocks without a
//! gate. Matrices are stored with one row per input.

use super::Family;
use super::base::ACTIVATIONS;
use super::keys::ConfigKeys;
use crate::core::error::Error;
use crate::engine::decoder::{Activation, Biases, Config, HeadSizes, LayerKind, TensorNames};

/// The registry entry.
pub(super) const FAMILY: Family = Family { model_type: "gpt2", config };

const NAMES: TensorNames = TensorNames {
    embedding: "transformer.wte",
    positions: "transformer.wpe",
    layers: "transformer.h",
    norm: "transformer.ln_f",
    qkv: &["attn.c_attn"],
    output: "attn.c_proj",
    gate_up: &["mlp.c_fc"],
    down: "mlp.c_proj",
    norms: [Some("ln_1"), None, Some("ln_2"), None],
    transposed: true,
    ..TensorNames::LLAMA
};

fn config(keys: &ConfigKeys<'_>) -> Result<Config, Error> {
    let size = |key, default| Ok::<_, Error>(keys.size(key)?.unwrap_or(default));
    let (hidden, queries) = (size("n_embd", 768)?, size("n_head", 12)?);
    let width = hidden / queries;
    if !hidden.is_multiple_of(queries) || !width.is_multiple_of(2) {
        let what = format!("n_embd {hidden} is not an even multiple of n_head {queries}");
        return Err(keys.fault(what));
    }
    for key in ["add_cross_attention", "reorder_and_upcast_attn"] {
        if keys.flag(key)? == Some(true) {
            return Err(keys.fault(format!("{key} is true, but must be false")));
        }
    }
    let by_layer = keys.flag("scale_attn_by_inverse_layer_idx")?.unwrap_or(false);
    let layer = |number| LayerKind {
        rope: None,
        divisor: if by_layer { number + 1 } else { 1 },
        ..LayerKind::PLAIN
    };
    let layers = keys.size_up_to(super::base::MOST_LAYERS, "n_layer")?.unwrap_or(12);
    let scales = keys.flag("scale_attn_weights")?.unwrap_or(true);
    let activation = keys.choice("activation_function", ACTIVATIONS)?;
    Ok(Config {
        model_type: String::new(),
        hidden,
        intermediate: keys.size("n_inner")?.unwrap_or(4 * hidden),
        experts: None,
        heads: HeadSizes { queries, keys: queries, width },
        layers: (0..layers).map(layer).collect(),
        per_layer: None,
        layer_scalars: false,
        ropes: Vec::new(),
        names: NAMES,
        layer_norms: true,
        norm_eps: keys.not_negative("layer_norm_epsilon")?.unwrap_or(1e-5) as f32,
        norm_offset: 0.0,
        head_norms: None,
        value_norms: false,
        biases: Biases { qkv: true, output: true, mlp: true, experts: false },
        activation: activation.unwrap_or(Activation::GeluTanh),
        embedding_scale: 1.0,
        attention_scale: if scales { (1.0 / (width as f64).sqrt()) as f32 } else { 1.0 },
        value_scale: 1.0,
        attention_softcap: None,
        logit_scale: 1.0,
        final_softcap: None,
        positions: size("n_positions", 1024)?,
        vocab_rows: size("vocab_size", 50_257)?,
        tied: keys.flag("tie_word_embeddings")?.unwrap_or(true),
        learned_positions: true,
        gated: false,
    })
}
