//! Prompts in tokens: lists of token ids, as vLLM, SGLang, transformers and tapes have them. They
//! are of the target's vocabulary; no tokenizer and no template changes them.

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use super::{Asked, PromptFormat};
use crate::core::distribution::Token;

pub(super) const VLLM: PromptFormat = PromptFormat {
    name: "vLLM",
    key: "prompt_token_ids",
    summary: "`prompt_token_ids`, tokens of the target",
    context: &[],
    read: |row| read(row, "prompt_token_ids"),
};

pub(super) const TRANSFORMERS: PromptFormat = PromptFormat {
    name: "transformers and SGLang",
    key: "input_ids",
    summary: "`input_ids`, tokens of the target",
    context: &[],
    read: |row| read(row, "input_ids"),
};

pub(super) const TAPE: PromptFormat = PromptFormat {
    name: "tapes of specdec",
    key: "prompt_tokens",
    summary: "`prompt_tokens`, tokens of the target",
    context: &[],
    read: |row| read(row, "prompt_tokens"),
};

pub(super) const TOKENS: PromptFormat = PromptFormat {
    name: "specdec, in tokens",
    key: "tokens",
    summary: "`tokens` of the target",
    context: &[],
    read: |row| read(row, "tokens"),
};

fn read(row: &Map<String, Value>, key: &str) -> Result<Asked> {
    let tokens = tokens(&row[key]);
    let tokens =
        tokens.with_context(|| format!("\"{key}\" is not a list of at least one token id"))?;
    Ok(Asked { tokens: Some(tokens), ..Asked::default() })
}

/// The token ids of a list that holds at least one and nothing else.
pub(super) fn tokens(list: &Value) -> Option<Vec<Token>> {
    let list = list.as_array().filter(|list| !list.is_empty())?;
    list.iter().map(|id| Token::try_from(id.as_u64()?).ok()).collect()
}
