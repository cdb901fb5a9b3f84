//! What files of all kinds of heads say.

use super::keys::Keys;
use super::names::D2T;
use crate::core::error::Error;

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
