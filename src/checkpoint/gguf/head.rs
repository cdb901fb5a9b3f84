//! What only files of heads have, which draft from hidden states of a target.

use serde_json::{Map, Value};

use super::keys::Keys;
use super::names::Global;
use super::sizes::Sizes;
use crate::core::error::Error;

/// Fuses the hidden states that a head reads.
pub(super) const FC: &str = "fc.weight";
/// The norm before or after it.
pub(super) const FC_NORM: &str = "enc.output_norm.weight";
/// The target's token of each of a head's.
pub(super) const D2T: &str = "d2t";

/// Adds the keys of a head to a `config.json`.
type AddKeys = fn(&mut Map<String, Value>, Keys<'_>, &Sizes) -> Result<(), Error>;

/// What distinguishes the files of a head.
#[derive(Debug)]
pub(super) struct HeadLayout {
    /// Adds its keys to a `config.json`.
    pub(super) add_keys: AddKeys,
    /// Its tensors that are not part of a layer.
    pub(super) tensors: &'static [Global],
    /// Whether rows may see later ones.
    pub(super) looks_ahead: bool,
}

/// The lists of layers after which the target's states are read: the key of newer files, and that
/// of older ones.
const LAYERS: [&str; 2] = ["target_layers", "extract_layers"];

/// The layers after which the target's states are read: k is the state after k layers.
pub(super) fn layers(keys: Keys<'_>) -> Result<Vec<u64>, Error> {
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

/// Number of a head's tokens, if it has a matrix of its own for them.
pub(super) fn own_tokens(keys: Keys<'_>) -> Option<usize> {
    let rows = |tensor| keys.file.tensor(tensor).map(|tensor| tensor.shape()[0]);
    rows(D2T).or_else(|| rows("output.weight"))
}
