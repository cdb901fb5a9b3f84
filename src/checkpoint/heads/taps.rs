//! Which hidden states of the target a head reads. Files count layers in two ways.

use super::block_keys::BlockKeys;
use super::files::HeadFiles;
use crate::checkpoint::families::ConfigKeys;
use crate::core::error::Error;
use crate::engine::TapSetting;
use crate::model::{Features, Tap};

/// The numbers of layers, at the top and in a table of its own.
const TOP: &str = "eagle_aux_hidden_state_layer_ids";
const TABLE: &str = "eagle_config";

/// The features of EAGLE-3: states after the layers that the file or a setting names.
///
/// At the top of a file, k is the state after k layers. In `eagle_config`, it is the state after
/// layer k, counted from 0. Without a list they are those of the method's own repository.
///
/// # Errors
/// If the target has fewer layers.
pub(super) fn features(files: &HeadFiles<'_>) -> Result<Features, Error> {
    let (keys, layers) = (&files.keys, files.hidden.layers);
    let nested = keys.table(TABLE)?.map(|table| numbers(&table)).transpose()?.flatten();
    let written = match (&files.settings.taps, numbers(keys)?, nested) {
        (Some(TapSetting::After(after)), ..) => after.clone(),
        (_, Some(top), _) => top,
        (Some(TapSetting::Written(_)), None, Some(nested)) => nested,
        (None, None, Some(nested)) => nested.into_iter().map(|layer| layer + 1).collect(),
        (_, None, None) => vec![2, layers / 2, layers.saturating_sub(3)],
    };
    if let Some(most) = written.iter().find(|&&after| after > layers) {
        return Err(keys.fault(format!(
            "the head reads the target's state after {most} layers ({TOP}; in GGUF files \
             target_layers or extract_layers), but must read it after 0 to {layers}"
        )));
    }
    let taps = written.into_iter().map(Tap::After).collect::<Vec<_>>();
    Ok(Features { width: taps.len() * files.hidden.width, taps, ..Features::default() })
}

/// The features of a block. `target_layer_ids` has k for the state after layer k, counted from 0, and −1
/// for the embedding; `aux_hidden_state_layer_ids` has k for the state after k layers. Without a
/// list they are spread evenly, but speculators always has one.
///
/// # Errors
/// If the target has fewer layers.
pub(super) fn of_block(files: &HeadFiles<'_>, keys: &BlockKeys<'_>) -> Result<Features, Error> {
    let layers = files.hidden.layers;
    let after = keys.layer_ids("aux_hidden_state_layer_ids")?;
    let outputs = keys.layer_ids("target_layer_ids")?;
    let written = match (&files.settings.taps, after, outputs) {
        (Some(TapSetting::After(set)), ..) => set.iter().map(|&after| after as i64).collect(),
        (_, Some(after), _) => after,
        (Some(TapSetting::Written(_)), None, Some(outputs)) => outputs,
        (None, None, Some(outputs)) => outputs.into_iter().map(|layer| layer + 1).collect(),
        (_, None, None) if keys.speculators => {
            return Err(files.keys.fault("aux_hidden_state_layer_ids is missing"));
        }
        (_, None, None) => spread(keys.layers.size("num_hidden_layers")?.unwrap_or(1), layers),
    };
    let taps = written
        .iter()
        .map(|&after| usize::try_from(after).ok().filter(|after| *after <= layers).map(Tap::After));
    let taps =
        taps.collect::<Option<Vec<_>>>().filter(|taps| !taps.is_empty()).ok_or_else(|| {
            files.keys.fault(format!(
                "the head reads the target's states after {written:?} layers (target_layer_ids, \
             aux_hidden_state_layer_ids; in GGUF files target_layers), but must read some after 0 to {layers}"
            ))
        })?;
    Ok(Features { width: taps.len() * files.hidden.width, taps, ..Features::default() })
}

/// As many states as the drafter has layers, from layer 1 to the target's third last one, as its
/// own code spreads them.
fn spread(count: usize, layers: usize) -> Vec<i64> {
    if count == 1 {
        return vec![layers as i64 / 2 + 1];
    }
    let (first, last) = (1.0, layers as f64 - 3.0);
    let step = (last - first) / (count as f64 - 1.0);
    (0..count).map(|at| (first + step * at as f64).round_ties_even() as i64 + 1).collect()
}

fn numbers(keys: &ConfigKeys<'_>) -> Result<Option<Vec<usize>>, Error> {
    keys.counts(TOP)
}
