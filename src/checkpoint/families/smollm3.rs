//! SmolLM3 (Hugging Face 2025): Llama in which some layers have no rotary embedding (Yang et
//! al. 2025, arXiv 2501.18795).

use super::Family;
use super::base::{Defaults, base, set_windows};
use super::keys::ConfigKeys;
use crate::core::error::Error;
use crate::engine::decoder::{Biases, Config};

/// The registry entry.
pub(super) const FAMILY: Family = Family { model_type: "smollm3", config };

const DEFAULTS: Defaults =
    Defaults { positions: 32_768, theta: 2e6, tied: true, kv_heads: Some(4), ..Defaults::LLAMA };

fn config(keys: &ConfigKeys<'_>) -> Result<Config, Error> {
    let mut config = base(keys, &DEFAULTS)?;
    let attention = keys.flag("attention_bias")?.unwrap_or(false);
    let mlp = keys.flag("mlp_bias")?.unwrap_or(false);
    config.biases = Biases { qkv: attention, output: attention, mlp, ..Biases::default() };
    let rotated = rotated_layers(keys, config.layers.len())?;
    let used = keys.flag("use_sliding_window")?.unwrap_or(false);
    let window = keys.size("sliding_window")?;
    set_windows(keys, &mut config, window, |layer| used && !rotated[layer])?;
    for (layer, rotated) in config.layers.iter_mut().zip(rotated) {
        layer.rope = layer.rope.filter(|_| rotated);
    }
    Ok(config)
}

/// Which layers have a rotary embedding. The key says the opposite of its name: 1 is for
/// layers that have one.
fn rotated_layers(keys: &ConfigKeys<'_>, layers: usize) -> Result<Vec<bool>, Error> {
    let key = "no_rope_layers";
    let Some(listed) = keys.switches(key)? else {
        let every = keys.size("no_rope_layer_interval")?.unwrap_or(4);
        return Ok((1..=layers).map(|number| !number.is_multiple_of(every)).collect());
    };
    if listed.len() != layers {
        let what = format!("{key} has {} entries, but num_hidden_layers is {layers}", listed.len());
        return Err(keys.fault(what));
    }
    Ok(listed)
}
