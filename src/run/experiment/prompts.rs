//! The prompts of a run.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use sha2::{Digest, Sha256};

use crate::core::distribution::Token;

/// One prompt: a question, or one turn of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Unique within the experiment.
    pub id: String,
    /// The kind of text.
    pub category: String,
    /// The text to continue; in a conversation, what the user says last.
    pub text: String,
}

/// Refuses two prompts with the same id, whose rows could not be told apart.
///
/// # Errors
/// Names the id.
pub fn check_unique<'a>(ids: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut ids = ids.collect::<Vec<_>>();
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => bail!("two prompts have the id \"{}\": ids must be unique", pair[0]),
        None => Ok(()),
    }
}

/// For every prompt with the same tokens as an earlier one, the first such prompt.
pub fn copies(prompts: &[Prompt], tokens: &[Vec<Token>]) -> BTreeMap<String, String> {
    let mut first = BTreeMap::<&[Token], &str>::new();
    let mut copies = BTreeMap::new();
    for (Prompt { id, .. }, tokens) in prompts.iter().zip(tokens) {
        let original = *first.entry(tokens).or_insert(id);
        if original != id {
            copies.insert(id.clone(), original.to_owned());
        }
    }
    copies
}

/// SHA-256 over everything in the prompts that can change tokens or the grouping of rows:
/// ids, categories, texts and their tokens. Each part is preceded by its length, so that
/// the parts cannot be split in another way. There may be several lists of tokens, one after the
/// other.
pub fn sha256(prompts: &[Prompt], tokens: &[Vec<Token>]) -> String {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    for (Prompt { id, category, text }, tokens) in prompts.iter().cycle().zip(tokens) {
        part(id.as_bytes());
        part(category.as_bytes());
        part(text.as_bytes());
        part(&tokens.iter().flat_map(|token| token.to_le_bytes()).collect::<Vec<_>>());
    }
    crate::model::hex(&hash.finalize())
}
