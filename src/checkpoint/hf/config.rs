//! `config.json` and `generation_config.json` of a Hugging Face folder, and the tokens that begin
//! and end a text.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::files::Text;
use super::quantised::Quantised;
use crate::checkpoint::chat::eos_token;
use crate::checkpoint::families::{self, ConfigKeys};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::engine::decoder::Config;

/// Tokens that begin and end texts, in either file.
#[derive(Debug, Default, Deserialize)]
struct RawMarks {
    bos_token_id: Option<Ids>,
    eos_token_id: Option<Ids>,
    /// Those of the text model.
    text_config: Option<Box<RawMarks>>,
}

/// The tokens that begin and end texts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marks {
    /// The token that an empty text starts with.
    pub(crate) begin: Option<Token>,
    /// The tokens that end a text.
    pub(crate) end: Vec<Token>,
    /// The name of the token that ends a text if there is none in `end`.
    pub(crate) named: Option<String>,
    /// What a user should know about the tokens that end a text.
    pub(super) note: Option<&'static str>,
}

/// A completion without an end token.
const ENDLESS: &str = "it has no end token, so only max_tokens, a stop string or a full context \
                       ends a completion";
/// End tokens that are not where they are expected.
const OF_CONFIG: &str = "generation_config.json names no end token that exists, so those of \
                         config.json end a completion";
const OF_TOKENIZER: &str = "no end token that exists is named by id, so eos_token of \
                            tokenizer_config.json ends a completion";

/// One token or several.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a token (a whole number >= 0) or a list of them")]
enum Ids {
    One(Token),
    Many(Vec<Token>),
}

/// Reads `config.json`: the decoder's shape, how matrices are quantised, and the tokens that begin
/// and end a text, unless `generation`, the content of `generation_config.json`, gives
/// these. If neither names a token that ends a text, `eos_token` of the tokenizer does.
pub(crate) fn read_config(
    text: &Text,
    generation: Option<&Text>,
) -> Result<(Config, Option<Quantised>, Marks), Error> {
    let table = text.json::<Map<String, Value>>()?;
    let keys = ConfigKeys::new(&text.file, &table);
    let config = families::config(&keys)?;
    let quantised = Quantised::read(&keys)?;
    let said = generation.map(Text::json::<RawMarks>).transpose()?.unwrap_or_default();
    let other = text.json::<RawMarks>()?.with_those_of_the_text_model();
    let ids = |ids: Option<Ids>| {
        let mut ids = ids.map_or_else(Vec::new, Ids::into_vec);
        ids.retain(|&id| (id as usize) < config.vocab_rows);
        ids
    };
    let begin = said.bos_token_id.or(other.bos_token_id);
    let begin = begin.and_then(|ids| ids.into_vec().first().copied());
    let stated = said.eos_token_id.is_some();
    let (mut end, other) = (ids(said.eos_token_id), ids(other.eos_token_id));
    let note = (stated && end.is_empty()).then_some(OF_CONFIG);
    if end.is_empty() {
        end = other;
    }
    let named =
        if end.is_empty() { eos_token(text.file.parent().unwrap_or(Path::new("")))? } else { None };
    Ok((config, quantised, Marks { begin, end, named, note }))
}

impl Marks {
    /// The tokens with these ids, which a GGUF file gives.
    pub(crate) fn of(begin: Option<Token>, end: Vec<Token>) -> Self {
        Self { begin, end, ..Self::default() }
    }

    /// The marks that exist: some checkpoints name padding rows, which are never
    /// sampled. `id` finds a token by its name.
    pub(super) fn below(mut self, vocab: usize, id: impl Fn(&str) -> Option<Token>) -> Self {
        let exists = |token: &Token| (*token as usize) < vocab;
        self.end.retain(exists);
        self.begin = self.begin.filter(exists);
        if self.end.is_empty() {
            self.end.extend(self.named.as_deref().and_then(id).filter(exists));
            self.note = Some(if self.end.is_empty() { ENDLESS } else { OF_TOKENIZER });
        }
        self
    }
}

impl RawMarks {
    /// The tokens, of the text model where there are none outside of it.
    fn with_those_of_the_text_model(self) -> Self {
        let inner = self.text_config.map(|inner| *inner).unwrap_or_default();
        Self {
            bos_token_id: self.bos_token_id.or(inner.bos_token_id),
            eos_token_id: self.eos_token_id.or(inner.eos_token_id),
            text_config: None,
        }
    }
}

impl Ids {
    fn into_vec(self) -> Vec<Token> {
        match self {
            Ids::One(id) => vec![id],
            Ids::Many(ids) => ids,
        }
    }
}
