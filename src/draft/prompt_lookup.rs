//! Prompt lookup: copy what followed the last occurrence of the current n-gram.

use super::{BuildDrafter, Drafter, Round};
use crate::dist::Token;
use crate::model::ModelError;
use crate::registry::Entry;
use crate::tree::{Draft, DraftShape};

/// Its line in the registry.
pub(super) const ENTRY: Entry<BuildDrafter> = Entry {
    name: "prompt_lookup",
    aliases: &["ngram", "prompt_lookup_decoding"],
    class: None,
    shape: Some(DraftShape { branches: false, sampled: false, certain: true }),
    summary: "copies what followed the most recent occurrence of the last n tokens",
    paper: "Saxena 2023, prompt lookup decoding; cf. Yang et al. 2023, arXiv 2304.04487",
    build: |params| {
        Ok(Box::new(PromptLookup { max: params.prompt_lookup_max, min: params.prompt_lookup_min }))
    },
};

/// Looks up the longest n-gram, `max ≥ n ≥ min`, that ends the context and
/// occurred before; the most recent earlier occurrence wins.
#[derive(Debug, Clone, Copy)]
pub struct PromptLookup {
    /// Longest n-gram.
    pub max: usize,
    /// Shortest n-gram.
    pub min: usize,
}

impl PromptLookup {
    /// Where the text that followed the match begins.
    fn find(&self, text: &[Token]) -> Option<usize> {
        (self.min.max(1)..=self.max).rev().find_map(|n| {
            let key = text.len().checked_sub(n).map(|at| &text[at..])?;
            // The windows before the last one, which is the key itself.
            let earlier = &text[..text.len() - 1];
            earlier.windows(n).rposition(|window| window == key).map(|at| at + n)
        })
    }
}

impl<'a> Drafter<'a> for PromptLookup {
    fn propose(&mut self, round: &mut Round<'_>) -> Result<Draft, ModelError> {
        let mut draft = Draft::empty(round.vocab);
        let Some(mut next) = self.find(round.context) else { return Ok(draft) };
        let mut parent = None;
        while round.go_on(&draft) {
            // Past the end of the context the copy goes on with what it has
            // copied itself, which continues periodic text.
            let token = match round.context.get(next) {
                Some(&token) => token,
                None => draft.node(next - round.context.len()).token,
            };
            parent = Some(draft.certain(parent, token));
            next += 1;
        }
        Ok(draft)
    }

    fn state_key(&mut self, _context: &[Token]) -> Result<Vec<u8>, ModelError> {
        Ok(Vec::new())
    }

    fn fork(&self) -> Result<Box<dyn Drafter<'a> + 'a>, ModelError> {
        Ok(Box::new(*self))
    }
}
