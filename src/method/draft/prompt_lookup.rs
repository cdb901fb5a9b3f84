//! Prompt lookup: copy what followed the last occurrence of the current n-gram.

use super::{BuildDrafter, Drafter, Pausing, Round};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::params::{Param, Params};
use crate::core::registry::Entry;
use crate::core::tree::{Draft, DraftShape};

pub(super) const MAX: Param =
    Param::count("prompt_lookup_max", 3, 1..=LONGEST, "longest n-gram looked up")
        .or(&["max_matching_ngram_size"]);
pub(super) const MIN: Param =
    Param::count("prompt_lookup_min", 1, 1..=LONGEST, "shortest n-gram looked up");
/// Upper limit of both settings.
const LONGEST: usize = 1024;

pub(super) const MATCH: Param =
    Param::text("prompt_lookup_match", RECENT, "which occurrence is continued: recent or leftmost");
const RECENT: &str = "recent";
const LEFTMOST: &str = "leftmost";

pub(super) const ENTRY: Entry<BuildDrafter> = Entry {
    name: "prompt_lookup",
    aliases: &["ngram", "prompt_lookup_decoding"],
    params: &[MAX, MIN, MATCH],
    summary: "copies what followed an earlier occurrence of the last n tokens",
    paper: "Saxena 2023, prompt lookup decoding; cf. Yang et al. 2023, arXiv 2304.04487",
    build: BuildDrafter {
        needs_model: false,
        shape: |params| PromptLookup::check(params).map(|()| DraftShape::CERTAIN),
        make: |params| Ok(Box::new(PromptLookup::new(params.params))),
    },
};

/// Looks up the longest n-gram, `max ≥ n ≥ min`, that ends the context and
/// occurred before.
#[derive(Debug, Clone, Copy)]
pub struct PromptLookup {
    /// Longest n-gram.
    pub max: usize,
    /// Shortest n-gram.
    pub min: usize,
    /// Whether the first occurrence is used instead of the most recent one.
    pub leftmost: bool,
}

impl PromptLookup {
    pub(super) fn new(params: &Params) -> Self {
        let (max, min) = (params.count(&MAX), params.count(&MIN));
        Self { max, min, leftmost: params.text(&MATCH) == LEFTMOST }
    }

    /// Checks that the settings are consistent.
    ///
    /// # Errors
    /// One sentence that names the settings and the allowed values.
    pub(super) fn check(params: &Params) -> Result<(), Error> {
        let Self { max, min, .. } = Self::new(params);
        let which = params.text(&MATCH);
        if max < min {
            return Err(Error::setting(format!(
                "prompt_lookup_min = {min} and prompt_lookup_max = {max} are out of range: \
                 allowed is 1 <= prompt_lookup_min <= prompt_lookup_max"
            )));
        }
        if ![RECENT, LEFTMOST].contains(&which.as_str()) {
            return Err(Error::setting(format!(
                "prompt_lookup_match = {which}: allowed are {RECENT}, {LEFTMOST}"
            )));
        }
        Ok(())
    }

    /// The position after the match, where copying begins.
    pub(super) fn find(&self, sequence: &[Token]) -> Option<usize> {
        // A longer n-gram cannot have occurred before.
        let longest = self.max.min(sequence.len().saturating_sub(1));
        (self.min.max(1)..=longest).rev().find_map(|n| {
            let key = &sequence[sequence.len() - n..];
            // The windows before the last one, which is the key itself.
            let mut earlier = sequence[..sequence.len() - 1].windows(n);
            let matches = |window: &[Token]| window == key;
            let at =
                if self.leftmost { earlier.position(matches) } else { earlier.rposition(matches) };
            at.map(|at| at + n)
        })
    }
}

impl<'a> Drafter<'a> for PromptLookup {
    fn propose<'f>(&'f mut self, round: &'f mut Round<'a, '_>) -> Pausing<'f> {
        Box::pin(async move {
            let mut draft = Draft::empty(round.vocab);
            if let Some(next) = self.find(round.context) {
                round.copy_from(next, &mut draft);
            }
            Ok(draft)
        })
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        Ok(Box::new(*self))
    }
}
