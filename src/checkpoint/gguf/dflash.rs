//! What the file of a block drafter, DFlash or DSpark, says besides its layers.

use serde_json::{Map, Value, json};

use super::head::{layers, own_tokens};
use super::keys::Keys;
use super::names::{FC_NORM, MARKOV};
use super::sizes::{Sizes, shape};
use crate::core::error::Error;

/// The key of the mask.
const MASK: &str = "tokenizer.ggml.mask_token_id";
/// Rows of a block where the file of a DFlash has no number.
const ROWS: usize = 16;

/// Adds the keys that a block drafter has in a `config.json`, as far as llama.cpp applies those of
/// the file: a scale and a cap of logits are not among them.
pub(super) fn add_keys(
    config: &mut Map<String, Value>,
    keys: Keys<'_>,
    sizes: &Sizes,
) -> Result<(), Error> {
    check_supported(keys, sizes)?;
    keys.file.tensor(FC_NORM).ok_or_else(|| keys.file.missing(FC_NORM))?;
    let flag = |name: &str| keys.metadata().truth(&keys.key(name));
    let markov = keys.file.tensor(MARKOV).map(|_| shape(keys, MARKOV)).transpose()?;
    // Without a Markov bias the key has no effect.
    let anchor_first = flag("sample_from_anchor")?.unwrap_or(true) && markov.is_some();
    let rows = keys.optional_size("block_size")?;
    let sinks = |layer| keys.file.tensor(&format!("blk.{layer}.attn_sinks.weight")).is_some();
    let pairs = [
        ("aux_hidden_state_layer_ids", json!(layers(keys)?)),
        ("block_size", json!(rows.or(markov.is_none().then_some(ROWS)))),
        ("mask_token_id", json!(keys.metadata().count(MASK)?)),
        ("sample_from_anchor", json!(anchor_first)),
        ("is_causal", json!(flag("attention.causal")?.unwrap_or(false))),
        ("use_sliding_window", json!(true)),
        ("sliding_window_past", json!(true)),
        ("attention_sink_bias", json!((0..sizes.layers).any(sinks))),
        ("attention_value_scale", keys.positive_or_null("attention.value_scale")?),
        ("input_embedding_scale", keys.positive_or_null("embedding_scale")?),
        ("markov_rank", json!(markov.map(|[_, rank]| rank))),
        ("enable_confidence_head", json!(flag("has_confidence_head")?)),
        ("confidence_head_with_markov", json!(true)),
        ("draft_vocab_size", json!(own_tokens(keys))),
    ];
    config.extend(pairs.map(|(key, value)| (key.to_owned(), value)));
    Ok(())
}

/// Refuses what other drafters of this architecture compute.
fn check_supported(keys: Keys<'_>, sizes: &Sizes) -> Result<(), Error> {
    let (key, usual) = ("attention.scale", 1.0 / (sizes.heads.width as f64).sqrt());
    if let Some(scale) = keys.positive(key)?.filter(|scale| (scale / usual - 1.0).abs() > 1e-6) {
        let what = format!("is {scale}, but must be {usual}: another one is not supported");
        return Err(keys.fault(key, &what));
    }
    let key = "hidden_activation";
    match keys.text(key)? {
        None | Some("silu") => Ok(()),
        Some(other) => Err(keys.fault(key, &format!("is {other:?}, but must be \"silu\""))),
    }
}
