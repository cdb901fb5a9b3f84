//! Keys of `experiment.toml`: their names, aliases and types.

use anyhow::{Result, bail};
use toml::{Table, Value};

use crate::decode::{all_params, find_param};
use crate::model::{Dtype, Engine};
use crate::registry::UnknownName;

/// A key and its aliases.
pub(super) type Key = (&'static str, &'static [&'static str]);

/// Keys of the top level, besides those of [`settings`].
const KEYS: &[Key] = &[
    ("question", &[]),
    ("target", &["model", "target_model"]),
    ("draft", &["draft_model", "speculative_model", "assistant_model", "model_draft"]),
    ("prompts", &[]),
    ("max_tokens", &["max_new_tokens", "n_predict"]),
    ("repeats", &[]),
    ("seed", &[]),
    ("warmup", &[]),
    ("ignore_eos", &[]),
    ("special_tokens", &[]),
    ("trace", &[]),
    ("threads", &[]),
    ("engine", &[]),
    ("device", &[]),
    ("dtype", &["torch_dtype"]),
    ("draft_dtype", &[]),
    ("clock", &[]),
    ("control", &[]),
    ("sweep", &[]),
    ("exclude", &[]),
];

/// Axes of `[sweep]` and conditions of `[[exclude]]`, besides those of
/// [`settings`].
const AXES: &[Key] = &[
    ("drafter", &["method", "spec_type"]),
    ("verifier", &["rejection_sample_method"]),
    (
        "num_speculative_tokens",
        &["num_assistant_tokens", "prompt_lookup_num_tokens", "draft_max", "n_draft"],
    ),
    ("temperature", &["temp"]),
    ("top_k", &[]),
    ("top_p", &[]),
    ("min_p", &[]),
];

/// Settings of methods that are axes and, with one value for all cells, may
/// stand at the top level as well: the draft length policy and whatever the
/// registered methods read.
pub(super) fn settings() -> Vec<Key> {
    let mut keys = vec![("length", &["num_assistant_tokens_schedule"][..])];
    keys.extend(all_params().into_iter().map(|param| (param.key, param.aliases)));
    keys
}

/// All keys of the top level.
pub(super) fn top_keys() -> Vec<Key> {
    [KEYS, &settings()].concat()
}

/// All keys of `[sweep]` and `[[exclude]]`.
pub(super) fn axes() -> Vec<Key> {
    [AXES, &settings()].concat()
}

/// Refuses unknown keys and turns aliases into canonical names; `place` says
/// where the table is.
pub(super) fn canonical(table: Table, keys: &[Key], place: &str) -> Result<Table> {
    let mut result = Table::new();
    for (name, value) in table {
        let Some((key, _)) = keys.iter().find(|(k, a)| *k == name || a.contains(&name.as_str()))
        else {
            bail!("{}{place}", UnknownName::new("key", &name, keys.iter().map(|(k, _)| *k)));
        };
        if result.insert((*key).to_owned(), value).is_some() {
            bail!("\"{key}\" is given twice{place}, once as \"{name}\"");
        }
    }
    Ok(result)
}

/// Names the key whose value has a type that its field cannot hold.
pub(super) fn check_type(key: &str, value: &Value) -> Result<()> {
    let want = match key {
        "max_tokens" | "repeats" | "seed" | "warmup" | "threads" => {
            ("a non-negative integer", value.as_integer().is_some_and(|i| i >= 0))
        }
        "question" | "target" | "draft" | "device" => ("a text", value.is_str()),
        "engine" => one_of(value, "\"native\" or \"candle\"", &Engine::ALL.map(Engine::name)),
        "dtype" | "draft_dtype" => {
            one_of(value, "\"f32\", \"bf16\", \"f16\" or \"q8_0\"", &Dtype::ALL.map(Dtype::name))
        }
        "ignore_eos" | "special_tokens" | "trace" | "control" => {
            ("true or false", value.as_bool().is_some())
        }
        "clock" => ("\"real\" or \"virtual\"", matches!(value.as_str(), Some("real" | "virtual"))),
        "prompts" => ("a text or a list of texts", all(value, |v| v.is_str())),
        "sweep" | "exclude" => {
            let tables = value.as_array().into_iter().flatten().filter_map(Value::as_table);
            for (axis, values) in tables.flatten() {
                check_axis(key, axis, values)?;
            }
            return Ok(());
        }
        _ => return Ok(()),
    };
    if want.1 { Ok(()) } else { bail!("\"{key}\" = {value}: allowed is {}", want.0) }
}

fn one_of(value: &Value, allowed: &'static str, names: &[&str]) -> (&'static str, bool) {
    (allowed, value.as_str().is_some_and(|name| names.contains(&name)))
}

fn check_axis(place: &str, axis: &str, values: &Value) -> Result<()> {
    let (want, ok) = match axis {
        "drafter" | "verifier" | "length" => {
            ("a name or a list of names", all(values, |v| v.is_str()))
        }
        "num_speculative_tokens" | "top_k" => (
            "a non-negative integer or a list of them",
            all(values, |v| v.as_integer().is_some_and(|i| i >= 0)),
        ),
        _ if find_param(axis).is_ok() => {
            let simple = |v: &Value| v.is_str() || v.is_float() || v.is_integer();
            ("a text, a number or a list of them", all(values, simple))
        }
        _ => ("a number or a list of numbers", all(values, |v| v.is_float() || v.is_integer())),
    };
    if ok { Ok(()) } else { bail!("\"{place}.{axis}\" = {values}: allowed is {want}") }
}

fn all(value: &Value, ok: impl Fn(&Value) -> bool) -> bool {
    value.as_array().map_or_else(|| ok(value), |values| values.iter().all(&ok))
}
