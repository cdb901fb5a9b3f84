//! The metadata of a GGUF file as the keys of a Hugging Face `config.json`.

use serde_json::{Map, Value, json};

use super::architecture::HeadKind;
use super::keys::Keys;
use super::rope::rope_parameters;
use super::sizes::Sizes;
use super::windows::add_windows;
use super::{dflash, eagle3};
use crate::core::error::Error;

/// The number of positions before scaling, in `rope_parameters`.
const ORIGINAL: &str = "original_max_position_embeddings";

/// The keys of the `config.json` that transformers would write for the model.
pub(super) fn config(keys: Keys<'_>, sizes: &Sizes) -> Result<Map<String, Value>, Error> {
    let architecture = keys.architecture;
    let (activation, activation_name) = architecture.activation;
    let eps = "attention.layer_norm_rms_epsilon";
    let eps = keys.number(eps)?.ok_or_else(|| keys.fault(eps, "is missing"))?;
    let rope = rope_parameters(keys, sizes)?;
    let original = rope.get(ORIGINAL).cloned();
    let pairs = [
        ("model_type", json!(architecture.model_type)),
        ("hidden_size", json!(sizes.hidden)),
        ("intermediate_size", json!(sizes.inner)),
        ("num_hidden_layers", json!(sizes.layers)),
        ("num_attention_heads", json!(sizes.heads.queries)),
        ("num_key_value_heads", json!(sizes.heads.keys)),
        ("head_dim", json!(sizes.heads.width)),
        ("vocab_size", json!(sizes.vocab)),
        ("max_position_embeddings", json!(sizes.positions)),
        ("rms_norm_eps", json!(eps)),
        ("tie_word_embeddings", json!(keys.file.tensor("output.weight").is_none())),
        ("rope_parameters", rope),
        (activation, json!(activation_name)),
    ];
    let pairs = pairs.into_iter().map(|(key, value)| (key.to_owned(), value));
    let mut config = pairs.collect::<Map<_, _>>();
    // Phi-3 has this key next to the table too, with a default that takes precedence over it.
    config.extend(original.map(|original| (ORIGINAL.to_owned(), original)));
    if let Some([count, used]) = sizes.experts {
        // Families call them differently. The weights of a row's experts sum to one in all models
        // of these architectures.
        let pairs = [
            ("num_experts", json!(count)),
            ("num_local_experts", json!(count)),
            ("num_experts_per_tok", json!(used)),
            ("moe_intermediate_size", json!(sizes.inner)),
            ("norm_topk_prob", json!(true)),
        ];
        config.extend(pairs.map(|(key, value)| (key.to_owned(), value)));
    }
    add_windows(&mut config, keys, sizes.layers)?;
    add_extras(&mut config, keys, sizes)?;
    match keys.architecture.head {
        None => {}
        Some(HeadKind::Eagle3) => eagle3::add_keys(&mut config, keys, sizes)?,
        Some(HeadKind::Dflash) => dflash::add_keys(&mut config, keys, sizes)?,
    }
    Ok(config)
}

/// Adds the keys that only some architectures have.
fn add_extras(config: &mut Map<String, Value>, keys: Keys<'_>, sizes: &Sizes) -> Result<(), Error> {
    let extras = &keys.architecture.extras;
    let mut add = |key: &str, value| config.insert(key.to_owned(), value);
    for (has, key) in [
        (extras.attention_cap, "attn_logit_softcapping"),
        (extras.final_cap, "final_logit_softcapping"),
    ] {
        if has {
            add(key, keys.positive_or_null(key)?);
        }
    }
    if let Some(layers) = extras.scale_by_width {
        let by_width = sizes.hidden / sizes.heads.queries;
        let root = if sizes.layers == layers { by_width } else { sizes.heads.width };
        add("query_pre_attn_scalar", json!(root));
    }
    if let Some(every) = extras.no_rope_every {
        let has = (1..=sizes.layers).map(|layer| u8::from(layer % every != 0));
        add("no_rope_layers", json!(has.collect::<Vec<_>>()));
    }
    if extras.bias_keys {
        let has = |part: &str| keys.file.tensor(&format!("blk.0.{part}.bias")).is_some();
        let attention = ["attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output"];
        add("attention_bias", json!(attention.into_iter().any(has)));
        let mlp = ["ffn_gate", "ffn_up", "ffn_down"];
        add("mlp_bias", json!(mlp.into_iter().any(has)));
    }
    Ok(())
}
