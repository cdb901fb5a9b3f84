//! The tokens that are put before and after every text.

use tokenizers::processors::template::{SpecialToken, TemplateProcessing};

use super::names::TokenNames;
use crate::core::distribution::Token;

/// The step of a tokenizer that puts tokens before and after a text: of each whether a text
/// gets it, and which it is. `None` if there are none to put.
///
/// # Errors
/// If a text gets a token that the file does not name.
pub(super) fn around(
    names: &TokenNames,
    (begins, bos): (bool, Option<Token>),
    (ends, eos): (bool, Option<Token>),
) -> Result<Option<TemplateProcessing>, String> {
    let bos = begins.then(|| special("bos_token_id", bos, names)).transpose()?;
    let eos = ends.then(|| special("eos_token_id", eos, names)).transpose()?;
    let template = match (&bos, &eos) {
        (None, None) => return Ok(None),
        (Some(_), None) => "bos_token_id $A",
        (None, Some(_)) => "$A eos_token_id",
        (Some(_), Some(_)) => "bos_token_id $A eos_token_id",
    };
    let special = bos.into_iter().chain(eos).collect::<Vec<_>>();
    let mut builder = TemplateProcessing::builder();
    builder.try_single(template)?.special_tokens(special);
    builder.build().map(Some).map_err(|e| e.to_string())
}

/// A token of a template, called like its key.
fn special(key: &str, id: Option<Token>, names: &TokenNames) -> Result<SpecialToken, String> {
    let id = id.ok_or_else(|| {
        format!("a token belongs around every text, but tokenizer.ggml.{key} does not say which")
    })?;
    let name = names.name(id).unwrap_or_default().to_owned();
    SpecialToken::new(key.to_owned(), vec![id], vec![name]).map_err(|e| e.to_string())
}
