//! Gemma 4, the text models (Google 2026): as Gemma 3 with two widths of heads, norms of values,
//! layers that attend to the keys and values of others, and inputs per layer.

use std::collections::BTreeSet;

use super::Family;
use super::base::{Defaults, base, check_heads, set_windows};
use super::gemma2;
use super::keys::ConfigKeys;
use super::rope::{self, Basis};
use crate::core::error::Error;
use crate::engine::decoder::{
    Biases, Config, HeadNorms, HeadSizes, KeySource, NORMS_AROUND, PerLayerInputs, Rope, Scaling,
};

/// The registry entry.
pub(super) const FAMILY: Family = Family { model_type: "gemma4_text", config };

const DEFAULTS: Defaults =
    Defaults { positions: 131_072, vocab: Some(262_144), heads: Some(8), ..gemma2::DEFAULTS };

/// Layers without and with a window, by the names of their kinds.
const KINDS: [&str; 2] = ["full_attention", "sliding_attention"];

fn config(keys: &ConfigKeys<'_>) -> Result<Config, Error> {
    if keys.flag("enable_moe_block")?.unwrap_or(false) {
        return Err(keys.fault("enable_moe_block = true is not supported"));
    }
    // "vision" concerns the tokens of images alone.
    keys.choice("use_bidirectional_attention", &[("vision", ())])?;
    let mut config = base(keys, &DEFAULTS)?;
    config.names.norms = NORMS_AROUND;
    config.embedding_scale = (config.hidden as f64).sqrt() as f32;
    config.attention_scale = 1.0;
    config.head_norms = Some(HeadNorms::Each);
    config.value_norms = true;
    config.layer_scalars = true;
    config.final_softcap = keys.positive("final_logit_softcapping")?.map(|cap| cap as f32);
    let attention = keys.flag("attention_bias")?.unwrap_or(false);
    config.biases = Biases { qkv: attention, output: attention, ..Biases::default() };
    let window = keys.size("sliding_window")?.unwrap_or(512);
    set_windows(keys, &mut config, Some(window), |layer| !(layer + 1).is_multiple_of(6))?;
    if let Some(last) = config.layers.last_mut() {
        last.window = None;
    }
    let joint = keys.flag("attention_k_eq_v")?.unwrap_or(false);
    set_heads(keys, &mut config, joint)?;
    set_key_sources(keys, &mut config, joint)?;
    set_ropes(keys, &mut config)?;
    config.per_layer = per_layer(keys, config.vocab_rows)?;
    Ok(config)
}

/// The place of a layer's kind in [`KINDS`].
fn kind_of(config: &Config, layer: usize) -> usize {
    usize::from(config.layers[layer].window.is_some())
}

/// Gives layers their heads: those that `per_layer_config` names have others than the model, and
/// without that key, those without a window.
fn set_heads(keys: &ConfigKeys<'_>, config: &mut Config, joint: bool) -> Result<(), Error> {
    let listed = keys.table("per_layer_config")?;
    if let Some(listed) = &listed {
        let layers = (0..config.layers.len()).map(|layer| layer.to_string());
        let layers = layers.collect::<BTreeSet<_>>();
        listed.allow(|name| layers.contains(name))?;
    }
    let without_window = global_heads(keys, config.heads, joint)?;
    for layer in 0..config.layers.len() {
        let own = match &listed {
            Some(listed) => listed_heads(listed.table(&layer.to_string())?, config.heads)?,
            None if kind_of(config, layer) == 0 => without_window,
            None => config.heads,
        };
        check_heads(keys, own)?;
        config.layers[layer].own_heads = Some(own);
    }
    // One rotary embedding is that of all layers of a kind.
    for layer in 0..config.layers.len() {
        let kind = kind_of(config, layer);
        if config.heads_of(layer) != first_of_kind(config, kind) {
            let what = format!("gives layers of {} different heads", KINDS[kind]);
            return Err(keys.fault(format!("per_layer_config {what}")));
        }
    }
    Ok(())
}

/// The heads of layers without a window, as older files describe them.
fn global_heads(keys: &ConfigKeys<'_>, heads: HeadSizes, joint: bool) -> Result<HeadSizes, Error> {
    let own = keys.size("num_global_key_value_heads")?.filter(|_| joint);
    Ok(HeadSizes {
        width: keys.size("global_head_dim")?.unwrap_or(512),
        keys: own.unwrap_or(heads.keys),
        ..heads
    })
}

/// The heads that an entry of `per_layer_config` describes.
fn listed_heads(own: Option<ConfigKeys<'_>>, heads: HeadSizes) -> Result<HeadSizes, Error> {
    let Some(own) = own else { return Ok(heads) };
    own.allow(|name| ["head_dim", "num_key_value_heads"].contains(&name))?;
    Ok(HeadSizes {
        width: own.size("head_dim")?.unwrap_or(heads.width),
        keys: own.size("num_key_value_heads")?.unwrap_or(heads.keys),
        ..heads
    })
}

/// The heads of the first layer of a kind; the model's if there is none.
fn first_of_kind(config: &Config, wanted: usize) -> HeadSizes {
    let first = (0..config.layers.len()).find(|&layer| kind_of(config, layer) == wanted);
    first.map_or(config.heads, |layer| config.heads_of(layer))
}

/// The last layers attend to the keys and values of the last layer before them of their kind, and
/// may have wider feed-forward blocks. In the others, values may be keys.
fn set_key_sources(keys: &ConfigKeys<'_>, config: &mut Config, joint: bool) -> Result<(), Error> {
    let key = "num_kv_shared_layers";
    let shared = keys.count(key)?.unwrap_or(0);
    let own = config.layers.len().saturating_sub(shared);
    let widening = if keys.flag("use_double_wide_mlp")?.unwrap_or(false) { 2 } else { 1 };
    for layer in 0..config.layers.len() {
        let of = kind_of(config, layer);
        if layer < own {
            let is_joint = joint && of == 0;
            config.layers[layer].keys = if is_joint { KeySource::Joint } else { KeySource::Own };
            continue;
        }
        let source =
            (0..own).rev().find(|&below| kind_of(config, below) == of).ok_or_else(|| {
                let kind = KINDS[of];
                keys.fault(format!(
                    "{key} is {shared}, which leaves no layer of {kind} to share keys of"
                ))
            })?;
        config.layers[layer].keys = KeySource::Layer(source);
        config.layers[layer].widening = widening;
    }
    Ok(())
}

/// The rotary embeddings of both kinds of layers.
fn set_ropes(keys: &ConfigKeys<'_>, config: &mut Config) -> Result<(), Error> {
    let tables = keys.table("rope_parameters")?;
    let mut ropes = Vec::with_capacity(KINDS.len());
    for (number, kind) in KINDS.into_iter().enumerate() {
        let head_dim = first_of_kind(config, number).width;
        ropes.push(match &tables {
            None => default_rope(number, head_dim),
            Some(tables) => {
                let basis = Basis {
                    theta: 10_000.0,
                    part: 1.0,
                    partial: false,
                    head_dim,
                    positions: config.positions,
                    original: None,
                };
                rope::rope(&tables.required(kind, tables.table(kind)?)?, basis)?
            }
        });
    }
    config.ropes = ropes;
    for layer in 0..config.layers.len() {
        config.layers[layer].rope = Some(kind_of(config, layer));
    }
    Ok(())
}

/// The rotary embedding of a kind of layers if the configuration has none.
fn default_rope(kind: usize, width: usize) -> Rope {
    match kind {
        0 => {
            let scaling = Scaling::Proportional { kept: width / 8, factor: 1.0 };
            Rope { scaling, ..Rope::plain(1e6, width) }
        }
        _ => Rope::plain(10_000.0, width),
    }
}

/// What layers read next to the hidden state.
fn per_layer(keys: &ConfigKeys<'_>, vocab: usize) -> Result<Option<PerLayerInputs>, Error> {
    let width = keys.count("hidden_size_per_layer_input")?.unwrap_or(256);
    if width == 0 {
        return Ok(None);
    }
    let key = "vocab_size_per_layer_input";
    let rows = keys.size(key)?.unwrap_or(262_144);
    if rows < vocab {
        return Err(keys.fault(format!("{key} {rows} is less than vocab_size {vocab}")));
    }
    Ok(Some(PerLayerInputs { width, rows }))
}
