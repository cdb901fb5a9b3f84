//! What the file of an EAGLE-3 head says besides its layer.

use serde_json::{Map, Value, json};

use super::keys::Keys;
use super::names::D2T;
use super::sizes::Sizes;
use crate::core::error::Error;

/// The lists of layers after which the target's states are read: the key of newer files, and that
/// of older ones.
const LAYERS: [&str; 2] = ["target_layers", "extract_layers"];
/// The norm of the state, without which it would be another kind of head.
const STATE_NORM: &str = "blk.0.attn_norm_2.weight";

/// Adds the keys that a head has in a `config.json`, where a list at the top counts layers as the
/// file does: k is the state after k layers.
pub(super) fn add_head(
    config: &mut Map<String, Value>,
    keys: Keys<'_>,
    sizes: &Sizes,
) -> Result<(), Error> {
    if sizes.layers != 1 {
        let what = format!("is {}, but must be 1: a head has one layer", sizes.layers);
        return Err(keys.fault("block_count", &what));
    }
    keys.file.tensor(STATE_NORM).ok_or_else(|| keys.file.missing(STATE_NORM))?;
    let rows = |tensor| keys.file.tensor(tensor).map(|tensor| tensor.shape()[0]);
    let flag = |name: &str| keys.metadata().truth(&keys.key(name));
    let pairs = [
        ("eagle_aux_hidden_state_layer_ids", json!(layers(keys)?)),
        ("target_hidden_size", json!(keys.size("target_hidden_size")?)),
        ("norm_before_residual", json!(flag("norm_before_residual")?)),
        ("norm_before_fc", json!(flag("norm_before_fc")?)),
        ("draft_vocab_size", json!(rows(D2T).or_else(|| rows("output.weight")))),
    ];
    config.extend(pairs.map(|(key, value)| (key.to_owned(), value)));
    Ok(())
}

/// The layers after which the target's states are read.
fn layers(keys: Keys<'_>) -> Result<Vec<u64>, Error> {
    let [newer, older] = LAYERS;
    let there = |name: &&str| keys.metadata().get(&keys.key(name)).is_some();
    let name = LAYERS.into_iter().find(there).ok_or_else(|| {
        keys.fault(newer, &format!("is missing, and so is {older}: one of them must list layers"))
    })?;
    let listed = keys.metadata().scalars(&keys.key(name))?;
    let layers = listed.into_iter().flat_map(|list| list.iter()).map(|layer| layer.as_count());
    let layers = layers.collect::<Option<Vec<_>>>().filter(|layers| !layers.is_empty());
    layers.ok_or_else(|| keys.fault(name, "must be a list of whole numbers >= 0 that is not empty"))
}
