//! Which draft models fit a target, and what helps if one does not.

use super::SharedVocabulary;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::model::{Codec, ModelInfo, Spelling};

/// The most differing tokens that an error names.
const NAMED: usize = 3;

/// Checks that a draft model may propose its tokens to a target as they are.
///
/// # Errors
/// If their vocabularies differ: the first differing tokens, and the setting that helps.
pub fn check_pair(
    (target, codec): (&ModelInfo, &dyn Codec),
    (draft, own): (&ModelInfo, &dyn Codec),
) -> Result<(), Error> {
    if target.tokenizer_sha256 == draft.tokenizer_sha256 && target.vocab == draft.vocab {
        return Ok(());
    }
    let what = if target.vocab == draft.vocab {
        format!(
            "target {} and draft {} have different tokenizers: the same number would stand for \
             different tokens",
            target.name, draft.name
        )
    } else {
        format!(
            "target {} has {} tokens and draft {} has {}: they must share one vocabulary",
            target.name, target.vocab, draft.name, draft.vocab
        )
    };
    let spellings = codec.spellings().ok().zip(own.spellings().ok());
    let differing = spellings.as_ref().map_or_else(String::new, |(one, other)| {
        format!("; they differ first in {}", differing((codec, one), (own, other)))
    });
    let fits = spellings.is_some_and(|(one, other)| SharedVocabulary::prefix(&one, &other).is_ok());
    let most = target.vocab.min(draft.vocab);
    let otherwise = match fits {
        true => format!("\"prefix\" drafts those of the first {most} that are equal"),
        false => "\"intersection\" drafts the tokens that both have".to_owned(),
    };
    Err(Error::input(format!("{what}{differing}; vocabulary = {otherwise}")))
}

/// The first tokens that differ, by number.
fn differing(
    (codec, target): (&dyn Codec, &[Option<Spelling>]),
    (own, draft): (&dyn Codec, &[Option<Spelling>]),
) -> String {
    let at = |all: &[Option<Spelling>], id: usize| all.get(id).cloned().flatten();
    let label = |codec: &dyn Codec, all: &[Option<Spelling>], id: usize| match at(all, id) {
        Some(Spelling::Control(name)) => format!("{name:?}"),
        Some(_) => format!("{:?}", codec.token_label(id as Token)),
        None => "none".to_owned(),
    };
    let ids = (0..target.len().max(draft.len())).filter(|&id| at(target, id) != at(draft, id));
    let named = ids.take(NAMED).map(|id| {
        format!("token {id} ({} and {})", label(codec, target, id), label(own, draft, id))
    });
    named.collect::<Vec<_>>().join(", ")
}
