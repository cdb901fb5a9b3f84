//! Keys of `experiment.toml`, each declared once: its names, and what it may be.

use anyhow::{Result, bail};
use toml::{Table, Value};

use super::spec::LongPrompt;
use crate::model::{Dtype, Engine};
use crate::params::{self, Param};
use crate::registry::UnknownName;

/// A key of the top level.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    kind: Kind,
}

/// What the value of a key may be.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    /// A list of texts, or one.
    Texts,
    Flag,
    /// One of some names.
    Name(fn() -> Vec<&'static str>),
    Count(Param),
    /// Tables with keys of their own.
    Tables,
}

/// New tokens per generation.
pub(super) const MAX_TOKENS: Param =
    Param::count("max_tokens", 64, 1..=1_000_000, "new tokens per generation")
        .or(&["max_new_tokens", "n_predict"]);
/// Generations per prompt and cell.
pub(super) const REPEATS: Param =
    Param::count("repeats", 1, 1..=10_000, "generations per prompt and cell");
/// Seed of all draws.
const SEED: Param = Param::count("seed", 0, 0..=usize::MAX, "seed of all draws");
/// Warm-up generations per cell; of three the median is right while one is
/// disturbed.
pub(super) const WARMUP: Param =
    Param::count("warmup", 3, 0..=1_000, "warm-up generations per cell");
/// Worker threads.
const THREADS: Param = Param::count("threads", 1, 1..=65_535, "worker threads").optional();
/// Prompts that are chosen of all.
const LIMIT: Param =
    Param::count("prompts_limit", 1, 1..=1_000_000, "prompts that are chosen of all").optional();
/// Prompts that are chosen of each category.
const PER_CATEGORY: Param =
    Param::count("prompts_per_category", 1, 1..=1_000_000, "prompts chosen of each category")
        .optional();

/// All keys of the top level, besides the settings of methods.
const KEYS: &[Key] = &[
    key("question", &[], Kind::Text),
    key("target", &["model", "target_model"], Kind::Text),
    key(
        "draft",
        &["draft_model", "speculative_model", "assistant_model", "model_draft"],
        Kind::Text,
    ),
    key("prompts", &[], Kind::Texts),
    count(LIMIT),
    count(PER_CATEGORY),
    key("on_long_prompt", &[], Kind::Name(|| LongPrompt::ALL.map(LongPrompt::name).to_vec())),
    count(MAX_TOKENS),
    count(REPEATS),
    count(SEED),
    count(WARMUP),
    key("ignore_eos", &[], Kind::Flag),
    key("special_tokens", &[], Kind::Flag),
    key("trace", &[], Kind::Flag),
    count(THREADS),
    key("engine", &[], Kind::Name(|| Engine::ALL.map(Engine::name).to_vec())),
    key("device", &[], Kind::Text),
    key("dtype", &["torch_dtype"], Kind::Name(|| Dtype::ALL.map(Dtype::name).to_vec())),
    key("draft_dtype", &[], Kind::Name(|| Dtype::ALL.map(Dtype::name).to_vec())),
    key("clock", &[], Kind::Name(|| vec!["real", "virtual"])),
    key("control", &[], Kind::Flag),
    key("sweep", &[], Kind::Tables),
    key("exclude", &[], Kind::Tables),
];

const fn key(name: &'static str, aliases: &'static [&'static str], kind: Kind) -> Key {
    Key { name, aliases, kind }
}

const fn count(param: Param) -> Key {
    Key { name: param.key, aliases: param.aliases, kind: Kind::Count(param) }
}

/// The key of the top level that is called `name`.
pub(super) fn top_key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name || key.aliases.contains(&name))
}

/// The names of all keys of the top level.
pub(super) fn top_keys() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.name)
}

/// Gives counts that are not set their defaults.
pub(super) fn fill_in(table: &mut Table) -> Result<()> {
    for Key { name, kind, .. } in KEYS {
        if let Kind::Count(param) = kind
            && let Some(default) = param.default()
        {
            table.entry(*name).or_insert(Value::try_from(default)?);
        }
    }
    Ok(())
}

impl Key {
    /// Refuses a value that the key cannot have.
    ///
    /// # Errors
    /// Names the key, the value and what is allowed.
    pub(super) fn check(&self, value: &Value) -> Result<()> {
        let texts = |value: &Value| {
            value.as_array().map_or(value.is_str(), |all| all.iter().all(Value::is_str))
        };
        let (allowed, sound) = match self.kind {
            Kind::Text => ("a text".to_owned(), value.is_str()),
            Kind::Texts => ("a text or a list of texts".to_owned(), texts(value)),
            Kind::Flag => ("true or false".to_owned(), value.is_bool()),
            Kind::Name(names) => {
                let names = names();
                let quoted = names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>();
                (quoted.join(" or "), value.as_str().is_some_and(|name| names.contains(&name)))
            }
            Kind::Count(param) => {
                let sound = setting(value).is_some_and(|value| param.check(&value).is_ok());
                (param.allowed(), sound)
            }
            Kind::Tables => return Ok(()),
        };
        if sound { Ok(()) } else { bail!("\"{}\" = {value}: allowed is {allowed}", self.name) }
    }
}

/// A text, an integer or a number, as settings hold it.
pub(super) fn setting(value: &Value) -> Option<params::Value> {
    Some(match value {
        Value::String(text) => params::Value::Text(text.clone()),
        Value::Integer(n) => match usize::try_from(*n) {
            Ok(n) => params::Value::Count(n),
            Err(_) => params::Value::Number(*n as f64),
        },
        // -0.0 is written as 0: one setting, one id.
        Value::Float(x) => params::Value::Number(x + 0.0),
        _ => return None,
    })
}

/// A name that no key has.
pub(super) fn unknown<'a>(name: &str, keys: impl IntoIterator<Item = &'a str>) -> UnknownName {
    UnknownName::new("key", name, keys)
}
