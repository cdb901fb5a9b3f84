//! What is said about a key of `experiment.toml` that does not exist: the key that was meant, and
//! where it belongs.

use anyhow::{Error, anyhow};

use super::axes::{SweepAxis, axes};
use super::keys::{KEYS, unknown};
use crate::core::registry::UnknownName;

/// The error for a key of the top level. If an axis is meant, `elsewhere` says where to write it.
pub(super) fn unknown_key(name: &str, elsewhere: impl Fn(&str) -> String) -> Error {
    let axis = of_sweep(name).nearest;
    match (of_top(name), axis) {
        (UnknownName { nearest: None, .. }, Some(axis)) => {
            anyhow!(
                "unknown key \"{name}\" (did you mean the axis \"{axis}\"?): {}",
                elsewhere(&axis)
            )
        }
        (found, _) => found.into(),
    }
}

/// The error for an axis, which ends in `place`. If a key of the top level is meant, `elsewhere` says
/// where to write it.
pub(super) fn unknown_axis(name: &str, place: &str, elsewhere: impl Fn(&str) -> String) -> Error {
    let key = of_top(name).nearest;
    match (of_sweep(name), key) {
        (UnknownName { nearest: None, .. }, Some(key)) => {
            anyhow!("unknown key \"{name}\"{place} (did you mean \"{key}\"?): {}", elsewhere(&key))
        }
        (found, _) => anyhow!("{found}{place}"),
    }
}

/// As a key of the top level, where settings of methods are allowed, too.
fn of_top(name: &str) -> UnknownName {
    let settings = || axes().into_iter().filter(SweepAxis::is_setting);
    let names = KEYS.iter().map(|key| key.name).chain(settings().map(|axis| axis.name));
    let aliases = KEYS.iter().map(|key| key.aliases).chain(settings().map(|axis| axis.aliases));
    unknown(name, names, aliases.flatten().copied())
}

/// As an axis.
fn of_sweep(name: &str) -> UnknownName {
    let names = axes().into_iter().map(|axis| axis.name);
    unknown(name, names, axes().into_iter().flat_map(|axis| axis.aliases).copied())
}
