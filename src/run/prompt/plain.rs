//! Our own rows, and those of OpenAI's completions: a text to continue, or its tokens. MT-Bench on
//! the Hugging Face hub has its turns under the same key.

use serde_json::{Map, Value};

use super::fields::{text, texts};
use super::tokens::tokens;
use super::{Asked, PromptFormat};

pub(super) const FORMAT: PromptFormat = PromptFormat {
    name: "specdec",
    key: "prompt",
    summary: "`prompt`: a text, a list of tokens of the target, or a list of turns",
    context: &[],
    read,
};

fn read(row: &Map<String, Value>) -> anyhow::Result<Asked> {
    match &row[FORMAT.key] {
        Value::Array(_) => match tokens(&row[FORMAT.key]) {
            Some(tokens) => Ok(Asked { tokens: Some(tokens), ..Asked::default() }),
            None => Ok(Asked { turns: texts(row, FORMAT.key)?, ..Asked::default() }),
        },
        _ => Ok(Asked::once(text(row, FORMAT.key)?)),
    }
}
