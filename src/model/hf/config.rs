//! `config.json` and `generation_config.json` of a Hugging Face folder.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::files::Text;
use crate::distribution::Token;
use crate::error::Error;
use crate::model::decoder::Config;
use crate::model::families::{self, ConfigKeys};

/// Tokens that begin and end texts, in either file.
#[derive(Debug, Default, Deserialize)]
struct RawMarks {
    bos_token_id: Option<Ids>,
    eos_token_id: Option<Ids>,
}

/// The tokens that begin and end texts.
#[derive(Debug, Clone, Default)]
pub(in crate::model) struct Marks {
    /// The token that an empty text starts with.
    pub(in crate::model) begin: Option<Token>,
    /// The tokens that end a text.
    pub(in crate::model) end: Vec<Token>,
}

/// One token or several.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a token (a whole number >= 0) or a list of them")]
enum Ids {
    One(Token),
    Many(Vec<Token>),
}

/// Reads `config.json`: the decoder's shape, and the tokens that begin and end a text,
/// unless `generation`, the content of `generation_config.json`, gives these.
pub(super) fn read_config(
    text: &Text,
    generation: Option<&Text>,
) -> Result<(Config, Marks), Error> {
    let table = text.json::<Map<String, Value>>()?;
    let config = families::config(&ConfigKeys::new(&text.file, &table))?;
    let said = generation.map(Text::json::<RawMarks>).transpose()?.unwrap_or_default();
    let other = text.json::<RawMarks>()?;
    let ids = |said: Option<Ids>, other| said.or(other).map_or_else(Vec::new, Ids::into_vec);
    let begin = ids(said.bos_token_id, other.bos_token_id).first().copied();
    Ok((config, Marks { begin, end: ids(said.eos_token_id, other.eos_token_id) }))
}

impl Marks {
    /// The marks that exist: some checkpoints name padding rows, which are never
    /// sampled.
    pub(super) fn below(mut self, vocab: usize) -> Self {
        self.end.retain(|&token| (token as usize) < vocab);
        let begin = self.begin.filter(|&token| (token as usize) < vocab);
        Self { begin, ..self }
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
