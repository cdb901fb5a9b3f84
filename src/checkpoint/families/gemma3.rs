//! Gemma 3, the text models (Gemma team 2025, arXiv 2503.19786): as Gemma 2 with norms of
//! queries and keys instead of soft caps, and with another rotary embedding in the layers
//! that have a window.

use super::Family;
use super::base::{Defaults, basis, set_windows};
use super::gemma2::{self, with_both_norms};
use super::keys::ConfigKeys;
use super::rope::{self, Basis};
use crate::core::error::Error;
use crate::engine::decoder::{Config, HeadNorms, Rope};

/// The registry entry.
pub(super) const FAMILY: Family = Family { model_type: "gemma3_text", config };

/// Those of the 4B model, whose published configuration leaves most keys out.
const DEFAULTS: Defaults = Defaults {
    positions: 131_072,
    theta: 1e6,
    vocab: Some(262_208),
    heads: Some(8),
    ..gemma2::DEFAULTS
};

fn config(keys: &ConfigKeys<'_>) -> Result<Config, Error> {
    let mut config = with_both_norms(keys, &DEFAULTS)?;
    config.final_softcap = keys.positive("final_logit_softcapping")?.map(|cap| cap as f32);
    config.head_norms = Some(HeadNorms::Each);
    let window = keys.size_or_none("sliding_window", 4096)?;
    let every = keys.size("sliding_window_pattern")?.unwrap_or(6);
    set_windows(keys, &mut config, window, |layer| !(layer + 1).is_multiple_of(every))?;
    config.ropes = ropes(keys, basis(keys, &DEFAULTS, config.heads.width)?)?;
    for layer in &mut config.layers {
        layer.rope = Some(usize::from(layer.window.is_some()));
    }
    Ok(config)
}

/// The rotary embeddings of layers without and with a window.
fn ropes(keys: &ConfigKeys<'_>, basis: Basis) -> Result<Vec<Rope>, Error> {
    let theta = keys.positive("rope_local_base_freq")?.unwrap_or(10_000.0);
    let local = Basis { theta, ..basis };
    let tables = keys.table("rope_parameters")?;
    let table = |kind| tables.as_ref().map_or(Ok(None), |tables| tables.table(kind));
    let all = match table("full_attention")? {
        Some(given) => rope::rope(&given, basis),
        None => rope::shared(keys, basis),
    };
    let windowed = match table("sliding_attention")? {
        Some(given) => rope::rope(&given, local),
        None => rope::plain(keys, local),
    };
    Ok(vec![all?, windowed?])
}
