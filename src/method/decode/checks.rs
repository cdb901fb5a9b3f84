//! What is checked before a generation begins.

use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::method::draft::Drafter;
use crate::method::length::DraftLength;
use crate::model::ModelInfo;

/// Checks that a model can continue a prompt.
///
/// # Errors
/// If the prompt is empty, contains an unknown token or fills the context.
pub(crate) fn check_prompt(model: &ModelInfo, prompt: &[Token]) -> Result<(), Error> {
    if prompt.is_empty() {
        return Err(Error::input("the prompt is empty: give at least one token"));
    }
    if let Some(token) = prompt.iter().find(|&&t| t as usize >= model.vocab) {
        return Err(Error::input(format!(
            "the prompt contains token {token}, but {} has tokens 0 to {}",
            model.name,
            model.vocab - 1
        )));
    }
    if prompt.len() >= model.context_length {
        return Err(Error::input(format!(
            "the prompt has {} tokens, but {} has room for {} including the completion",
            prompt.len(),
            model.name,
            model.context_length
        )));
    }
    Ok(())
}

/// Checks that the drafter estimates acceptance if the draft length depends on it.
pub(super) fn check_estimates(
    drafter: &mut dyn Drafter<'_>,
    length: &dyn DraftLength,
) -> Result<(), Error> {
    if !length.needs_estimates() || drafter.estimates() {
        return Ok(());
    }
    Err(Error::setting(
        "draft_length = confidence_head needs a draft with a confidence head, such as DSpark's, and a \
         drafter that reads it",
    ))
}
