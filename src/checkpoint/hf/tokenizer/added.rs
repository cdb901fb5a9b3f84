//! The added tokens of a tokenizer: which are control tokens, and which have no embedding.

use std::collections::BTreeSet;

use tokenizers::{AddedVocabulary, Result as TokenizerResult, Tokenizer};

use super::Marks;
use crate::core::distribution::Token;

/// The control tokens, and the added vocabulary in which special tokens are not
/// recognised.
pub(super) fn set_apart(
    tokenizer: &Tokenizer,
    marks: &Marks,
) -> TokenizerResult<(BTreeSet<Token>, AddedVocabulary)> {
    let mut in_texts = tokenizer.get_added_vocabulary().clone();
    let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
    let marks_added = marks.end.iter().chain(&marks.begin).filter_map(|id| added.get(id));
    let as_special = marks_added.map(|token| token.clone().special(true)).collect::<Vec<_>>();
    in_texts.add_tokens(as_special, tokenizer.get_model(), tokenizer.get_normalizer())?;
    in_texts.set_encode_special_tokens(true);
    let special = in_texts.get_added_tokens_decoder().iter().filter(|(_, token)| token.special);
    let controls = special.map(|(id, _)| *id).chain(marks.end.iter().copied()).collect();
    Ok((controls, in_texts))
}

/// Removes the added tokens beyond the embeddings, and returns their names.
pub(super) fn ignore_beyond(
    tokenizer: &mut Tokenizer,
    rows: usize,
) -> TokenizerResult<Vec<String>> {
    let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder().clone();
    let mut added = added.into_iter().collect::<Vec<_>>();
    added.sort_unstable_by_key(|(id, _)| *id);
    let beyond = added.split_off(added.partition_point(|(id, _)| (*id as usize) < rows));
    if !beyond.is_empty() {
        let mut kept = AddedVocabulary::new();
        let tokens = added.into_iter().map(|(_, token)| token);
        kept.add_tokens(tokens, tokenizer.get_model(), tokenizer.get_normalizer())?;
        tokenizer.with_added_vocabulary(kept);
    }
    Ok(beyond.into_iter().map(|(_, token)| format!("{:?}", token.content)).collect())
}
