//! What the file of an EAGLE-3 head says besides its layer.

use serde_json::{Map, Value, json};

use super::head::{layers, own_tokens};
use super::keys::Keys;
use super::sizes::Sizes;
use crate::core::error::Error;

/// The norm of the state, without which it would be another kind of head.
const STATE_NORM: &str = "blk.0.attn_norm_2.weight";

/// Adds the keys that a head has in a `config.json`, where a list at the top counts layers as the
/// file does.
pub(super) fn add_keys(
    config: &mut Map<String, Value>,
    keys: Keys<'_>,
    sizes: &Sizes,
) -> Result<(), Error> {
    if sizes.layers != 1 {
        let what = format!("is {}, but must be 1: a head has one layer", sizes.layers);
        return Err(keys.fault("block_count", &what));
    }
    keys.file.tensor(STATE_NORM).ok_or_else(|| keys.file.missing(STATE_NORM))?;
    let flag = |name: &str| keys.metadata().truth(&keys.key(name));
    let pairs = [
        ("eagle_aux_hidden_state_layer_ids", json!(layers(keys)?)),
        ("target_hidden_size", json!(keys.size("target_hidden_size")?)),
        ("norm_before_residual", json!(flag("norm_before_residual")?)),
        ("norm_before_fc", json!(flag("norm_before_fc")?)),
        ("draft_vocab_size", json!(own_tokens(keys))),
    ];
    config.extend(pairs.map(|(key, value)| (key.to_owned(), value)));
    Ok(())
}
