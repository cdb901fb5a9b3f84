//! `tokenizer.ggml.merges`: which two tokens become one.

use std::collections::HashSet;

use tokenizers::models::bpe::{Merges, Vocab};

use super::names::short;

/// The merges, in their order. One that occurs twice counts where it is first.
///
/// # Errors
/// If there are none, or one does not make a token of two tokens.
pub(super) fn read(merges: &[String], vocab: &Vocab) -> Result<Merges, String> {
    if merges.is_empty() {
        return Err("tokenizer.ggml.merges is missing or empty".to_owned());
    }
    let mut seen = HashSet::with_capacity(merges.len());
    let new = merges.iter().enumerate().filter(|(_, merge)| seen.insert(merge.as_str()));
    new.map(|(rank, merge)| {
        let fail =
            |why: String| format!("tokenizer.ggml.merges: {}, at {rank}, {why}", short(merge));
        parts(merge, vocab).map_err(fail)
    })
    .collect()
}

fn parts(merge: &str, vocab: &Vocab) -> Result<(String, String), String> {
    // The first character may itself be a space.
    let space = merge.char_indices().skip(1).find(|&(_, c)| c == ' ');
    let Some((space, _)) = space else { return Err("does not have two parts".to_owned()) };
    let (left, right) = (&merge[..space], &merge[space + 1..]);
    for part in [left, right, &[left, right].concat()] {
        if !vocab.contains_key(part) {
            return Err(format!("needs {}, which is no token", short(part)));
        }
    }
    Ok((left.to_owned(), right.to_owned()))
}
