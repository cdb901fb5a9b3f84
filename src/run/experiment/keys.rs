//! The keys of `experiment.toml`. Each is declared once, with its names, meaning, allowed
//! values and default; the checks, the reference page and the schema follow from this.

use anyhow::{Result, bail};
use toml::{Table, Value};

use super::values::setting;
use crate::core::params::Param;
use crate::core::registry::UnknownName;
use crate::engine::{Dtype, Engine};
use crate::model::{CacheDtype, ChatDate, Vocabulary};

/// A key of the top level.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    /// One line for people.
    pub(super) summary: &'static str,
    /// The default in words; `None` if the key is required.
    pub(super) default: Option<&'static str>,
    pub(super) kind: KeyKind,
}

/// The allowed values of a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeyKind {
    Text,
    /// A day, as a text or a TOML date.
    Date,
    /// A text or a list of texts.
    Texts,
    Flag,
    /// One of some names.
    Name(fn() -> Vec<&'static str>),
    Count(Param),
    /// Arguments of the chat template.
    Arguments,
    /// What a completion may be.
    Controls,
    /// Tables with keys of their own.
    Tables,
}

pub(super) const MAX_TOKENS: Param =
    Param::count("max_tokens", 64, 1..=1_000_000, "new tokens per generation")
        .or(&["max_new_tokens", "n_predict"]);
pub(super) const REPEATS: Param =
    Param::count("repeats", 1, 1..=10_000, "generations per prompt and cell");
/// Warm-up generations per cell. With three, one disturbed warm-up does not spoil the
/// median.
pub(super) const WARMUP: Param = Param::count(
    "warmup",
    3,
    0..=1_000,
    "warm-up generations per cell, whose costs predict speedups",
);

/// All keys of the top level except the settings of methods.
pub(super) const KEYS: &[Key] = &[
    key("question", KeyKind::Text, Some(""), "the question that the experiment answers"),
    key("target", KeyKind::Text, None, "name (`configs/models.toml`, or `owner/name` in the Hugging Face cache) or path of the target")
        .or(&["model", "target_model"]),
    key("draft", KeyKind::Text, Some("none"), "name or path of the draft model").or(&[
        "draft_model",
        "speculative_model",
        "assistant_model",
        "model_draft",
    ]),
    key(
        "vocabulary",
        KeyKind::Name(|| Vocabulary::ALL.map(Vocabulary::name).to_vec()),
        Some("\"same\""),
        "tokens that the draft model proposes: `same` as the target's, those of a vocabulary that is \
         a `prefix` of the other, or the `intersection` of both ([vocabularies.md](vocabularies.md))",
    ),
    key("prompts", KeyKind::Texts, None, "names of sets in `configs/prompts`, or paths"),
    key(
        "prompt_template",
        KeyKind::Text,
        Some("by the format of the row"),
        "what makes a prompt of a row of a file, with columns in braces: `Summarize: {article}`",
    ),
    optional("prompts_limit", 1_000_000, "all", "number of prompts that the seed chooses from all"),
    optional(
        "prompts_per_category",
        1_000_000,
        "all",
        "number of prompts that the seed chooses from each category, before the limit",
    ),
    optional(
        "input_tokens",
        10_000_000,
        "all of each prompt",
        "length of all prompts in tokens: longer ones are cut to their first tokens, shorter ones \
         left out; not with `chat`",
    ),
    key(
        "on_long_prompt",
        KeyKind::Name(|| vec!["error", "skip", "truncate"]),
        Some("\"error\""),
        "what happens to prompts that are too long",
    ),
    count(MAX_TOKENS, "64"),
    count(REPEATS, "1"),
    count(
        Param::count("seed", 0, 0..=usize::MAX, "seed of all draws and of the choice of prompts"),
        "0",
    ),
    count(WARMUP, "3"),
    key(
        "ignore_eos",
        KeyKind::Flag,
        Some("false"),
        "treat end-of-text tokens like any other token, so that all texts have the same length; \
         what follows them counts, although nobody would read it",
    ),
    key(
        "special_tokens",
        KeyKind::Flag,
        Some("false"),
        "turn strings in prompts that name control tokens into these tokens",
    ),
    key(
        "chat",
        KeyKind::Flag,
        Some("false"),
        "take prompts as messages of a user, and write them as the target's chat template does",
    ),
    key("system", KeyKind::Text, Some("none"), "system message of conversations without one of their own; needs `chat`"),
    key(
        "chat_date",
        KeyKind::Date,
        Some("none"),
        "the date that a chat template gets if it asks for one; needs `chat`",
    ),
    key(
        "chat_arguments",
        KeyKind::Arguments,
        Some("none"),
        "arguments of the chat template, such as `{ enable_thinking = [true, false] }`: those with a list \
         are axes; needs `chat`",
    ),
    key(
        "controls",
        KeyKind::Controls,
        Some("none"),
        "what completions may be: a table of `json_schema`, `regex` or `lark`, `allowed_token_ids`, \
         `bad_words`, `min_tokens`, `stop_token_ids` and `logit_bias` ([controls.md](controls.md))",
    ),
    key(
        "thinking",
        KeyKind::Texts,
        Some("`<think>` and `</think>`"),
        "list of the two strings before and after what the target thinks, for acceptance inside and outside of it",
    ),
    optional(
        "turns",
        1_000,
        "all with `chat`, else the first",
        "number of turns of a question that are run; needs `chat`",
    ),
    key("trace", KeyKind::Flag, Some("false"), "write `positions.csv`, a row per drafted token, and trace every generation"),
    optional("threads", 65_535, "all cores", "worker threads, at most the number of cores"),
    key(
        "engine",
        KeyKind::Name(|| Engine::ALL.map(Engine::name).to_vec()),
        Some("native on the CPU, else candle"),
        "which code computes the logits",
    ),
    key("device", KeyKind::Text, Some("cpu"), "where the models run: `cpu`, `cuda:N` or `metal`"),
    key("dtype", DTYPE, Some("that of the files"), "type of the weights in memory").or(&["torch_dtype"]),
    key("draft_dtype", DTYPE, Some("`dtype`"), "the same for the draft model alone"),
    key(
        "kv_cache",
        KeyKind::Flag,
        Some("true"),
        "keep keys and values; without them, every pass computes the whole text again",
    ),
    key(
        "kv_cache_dtype",
        KeyKind::Name(|| CacheDtype::ALL.map(CacheDtype::name).to_vec()),
        Some("\"f32\""),
        "type of keys and values; any but f32 makes it another model",
    ),
    key(
        "clock",
        KeyKind::Name(|| vec!["real", "virtual"]),
        Some("\"real\""),
        "source of times: measured, or a fixed cost per pass",
    ),
    key(
        "control",
        KeyKind::Flag,
        Some("false"),
        "run the baseline and the first method twice, to show how much results differ by chance",
    ),
    key("sweep", KeyKind::Tables, None, "the axes; several `[[sweep]]` tables are several sweeps"),
    key(
        "exclude",
        KeyKind::Tables,
        Some("none"),
        "conditions of cells to leave out: `[[exclude]]`",
    ),
];

const DTYPE: KeyKind = KeyKind::Name(|| Dtype::ALL.map(Dtype::name).to_vec());

const fn key(
    name: &'static str,
    kind: KeyKind,
    default: Option<&'static str>,
    summary: &'static str,
) -> Key {
    Key { name, aliases: &[], summary, default, kind }
}

const fn count(param: Param, default: &'static str) -> Key {
    key(param.key, KeyKind::Count(param), Some(default), param.summary).or(param.aliases)
}

/// A count from 1 to `most` that need not be given.
const fn optional(
    name: &'static str,
    most: usize,
    default: &'static str,
    summary: &'static str,
) -> Key {
    count(Param::count(name, 1, 1..=most, summary).optional(), default)
}

/// The key of the top level that is called `name`.
pub(super) fn top_key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name || key.aliases.contains(&name))
}

pub(super) fn fill_in(table: &mut Table) -> Result<()> {
    for Key { name, kind, .. } in KEYS {
        if let KeyKind::Count(param) = kind
            && let Some(default) = param.default()
        {
            table.entry(*name).or_insert(Value::try_from(default)?);
        }
    }
    Ok(())
}

impl Key {
    const fn or(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// The allowed values, in words.
    pub(super) fn allowed(&self) -> String {
        match self.kind {
            KeyKind::Text => "a text".to_owned(),
            KeyKind::Date => "a day, YYYY-MM-DD".to_owned(),
            KeyKind::Texts => "a text or a list of texts".to_owned(),
            KeyKind::Flag => "true or false".to_owned(),
            KeyKind::Name(names) => {
                let quoted = names().iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>();
                quoted.join(" or ")
            }
            KeyKind::Count(param) => param.allowed(),
            KeyKind::Arguments => "a table of values or lists of values".to_owned(),
            KeyKind::Controls => "a table of controls".to_owned(),
            KeyKind::Tables => "a table or a list of tables".to_owned(),
        }
    }

    /// Refuses a value that the key does not allow.
    ///
    /// # Errors
    /// Names the key, the value and the allowed values.
    pub(super) fn check(&self, value: &Value) -> Result<()> {
        let texts = |value: &Value| {
            value.as_array().map_or(value.is_str(), |all| all.iter().all(Value::is_str))
        };
        let sound = match self.kind {
            KeyKind::Text => value.is_str(),
            KeyKind::Date => day(value).is_some(),
            KeyKind::Texts => texts(value),
            KeyKind::Flag => value.is_bool(),
            KeyKind::Name(names) => value.as_str().is_some_and(|name| names().contains(&name)),
            KeyKind::Count(param) => {
                setting(value).is_some_and(|value| param.check(&value).is_ok())
            }
            KeyKind::Arguments | KeyKind::Controls => value.is_table(),
            KeyKind::Tables => true,
        };
        if sound {
            return Ok(());
        }
        let one = match (value, self.kind) {
            (_, KeyKind::Texts) => "",
            (Value::Array(_), _) => ", one for all cells; only axes, below [sweep], have lists",
            _ => "",
        };
        bail!("\"{}\" = {value}: allowed is {}{one}", self.name, self.allowed())
    }
}

/// Symbols of papers, in lower case, and the keys that they stand for.
const SYMBOLS: [(&str, &str); 4] = [
    ("k", "num_speculative_tokens"),
    ("gamma", "num_speculative_tokens"),
    ("t", "temperature"),
    ("n", "max_tokens"),
];

/// The error for a name that is not one of `keys`, which are canonical, nor of `aliases`.
pub(super) fn unknown(
    name: &str,
    keys: impl IntoIterator<Item = &'static str>,
    aliases: impl IntoIterator<Item = &'static str>,
) -> UnknownName {
    let keys = keys.into_iter().collect::<Vec<_>>();
    let symbol = SYMBOLS.iter().find(|(symbol, _)| *symbol == name.to_lowercase());
    let found = UnknownName::new("key", name, keys.iter().copied()).or_near(aliases);
    match symbol.filter(|(_, key)| keys.contains(key)) {
        Some((_, key)) => UnknownName { nearest: Some((*key).to_owned()), ..found },
        None => found,
    }
}

/// A text that is a day, or the text of a TOML date without a time.
pub(super) fn day(value: &Value) -> Option<String> {
    let text = match value {
        Value::Datetime(date) => date.to_string(),
        value => value.as_str()?.to_owned(),
    };
    text.parse::<ChatDate>().ok().map(|_| text)
}
