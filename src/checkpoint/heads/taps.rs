//! Which hidden states of the target a head reads. Files count layers in two ways.

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

fn numbers(keys: &ConfigKeys<'_>) -> Result<Option<Vec<usize>>, Error> {
    keys.counts(TOP)
}
