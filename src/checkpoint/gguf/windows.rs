//! Which layers attend to a window of tokens.

use serde_json::{Map, Value, json};

use super::architecture::Windows;
use super::keys::Keys;
use super::metadata::{MetadataList, MetadataValue};
use crate::core::error::Error;

/// The key of the window.
const WINDOW: &str = "attention.sliding_window";
/// The key of the layers that have it.
const PATTERN: &str = "attention.sliding_window_pattern";

/// Adds the keys of windows.
pub(super) fn add_windows(
    config: &mut Map<String, Value>,
    keys: Keys<'_>,
    layers: usize,
) -> Result<(), Error> {
    match &keys.architecture.windows {
        Windows::No => {}
        Windows::All(model_type) => {
            let window = keys.nonzero(WINDOW)?;
            config.insert("sliding_window".to_owned(), json!(window));
            if let (Some(_), Some(model_type)) = (window, model_type) {
                config.insert("model_type".to_owned(), json!(model_type));
            }
        }
        Windows::AllBut { every, default } => {
            let given = keys.metadata().get(&keys.key(WINDOW)).is_some();
            let window = if given { keys.nonzero(WINDOW)? } else { *default };
            let has = match window {
                Some(_) => pattern(keys, layers, *every)?,
                None => vec![false; layers],
            };
            let name = |&has| if has { "sliding_attention" } else { "full_attention" };
            let types = has.iter().map(name).collect::<Vec<_>>();
            config.insert("sliding_window".to_owned(), json!(window));
            config.insert("layer_types".to_owned(), json!(types));
        }
        Windows::Refused(model) => {
            if let Some(window) = keys.nonzero(WINDOW)? {
                let what = format!("is {window}: this is {model}, which is not supported");
                return Err(keys.fault(WINDOW, &what));
            }
        }
    }
    Ok(())
}

/// Whether each layer has a window: all but every n-th, or as a list says.
fn pattern(keys: Keys<'_>, layers: usize, every: Option<usize>) -> Result<Vec<bool>, Error> {
    let Some(MetadataValue::List(list)) = keys.metadata().get(&keys.key(PATTERN)) else {
        let every = keys.nonzero(PATTERN)?.or(every);
        let missing = || keys.fault(PATTERN, &format!("is missing, but {WINDOW} is there"));
        let every = every.ok_or_else(missing)?;
        return Ok((1..=layers).map(|layer| layer % every != 0).collect());
    };
    let truth = |value| match value {
        MetadataValue::Bool(has) => Some(has),
        _ => None,
    };
    let has = match list {
        MetadataList::Scalars(list) => list.iter().map(truth).collect::<Option<Vec<_>>>(),
        _ => None,
    };
    has.filter(|has| has.len() == layers).ok_or_else(|| {
        let what = format!("must be a whole number or a list of {layers} truth values");
        keys.fault(PATTERN, &what)
    })
}
