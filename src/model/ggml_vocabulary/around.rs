//! The tokens that are put before and after every text.

use tokenizers::processors::template::{SpecialToken, TemplateProcessing};

use super::names::TokenNames;
use crate::distribution::Token;

/// Which tokens a text gets, and which they are if the file says so.
#[derive(Debug)]
pub(super) struct Around {
    /// Whether a text gets a token before it.
    pub(super) begins: bool,
    /// Whether a text gets a token after it.
    pub(super) ends: bool,
    /// The token before a text.
    pub(super) bos: Option<Token>,
    /// The token after a text.
    pub(super) eos: Option<Token>,
}

impl Around {
    /// The step of a tokenizer that puts the tokens around a text; `None` if there are
    /// none to put.
    ///
    /// # Errors
    /// If a text gets a token that the file does not name.
    pub(super) fn processor(
        &self,
        names: &TokenNames,
    ) -> Result<Option<TemplateProcessing>, String> {
        let bos = self.begins.then(|| special("bos_token_id", self.bos, names)).transpose()?;
        let eos = self.ends.then(|| special("eos_token_id", self.eos, names)).transpose()?;
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
}

/// A token of a template, called like its key.
fn special(key: &str, id: Option<Token>, names: &TokenNames) -> Result<SpecialToken, String> {
    let id = id.ok_or_else(|| {
        format!("a token belongs around every text, but tokenizer.ggml.{key} does not say which")
    })?;
    let name = names.name(id).unwrap_or_default().to_owned();
    SpecialToken::new(key.to_owned(), vec![id], vec![name]).map_err(|e| e.to_string())
}
