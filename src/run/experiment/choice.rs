//! Which prompts of an experiment are run, and what is said about the others.

use std::collections::BTreeMap;

use anyhow::anyhow;
use serde::{Deserialize, Serialize};

use super::prompts::Prompt;
use super::spec::Spec;
use super::values::LongPrompt;
use crate::core::distribution::Token;
use crate::io::shown::count;

/// How the prompts of a run were chosen from those that the experiment names; all zero
/// and empty if every prompt is run unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Choice {
    /// Number of prompts that the experiment names.
    pub of: usize,
    /// How many the seed chose from each category; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_category: Option<usize>,
    /// How many the seed chose in total; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// The number of tokens that every prompt is cut to; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<usize>,
    /// Ids of the prompts that were left out because they are shorter than that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub short: Vec<String>,
    /// Ids of the prompts that were left out because they are too long.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// Number of tokens cut from the beginning of prompts, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub truncated: BTreeMap<String, usize>,
    /// Ids of the turns that are too long; they and the turns after them were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<String>,
}

impl Choice {
    /// Whether every prompt is run unchanged.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// The choice in words; empty if every prompt is run unchanged. Each sentence lists
    /// the ids of at most `most` prompts.
    pub fn sentences(&self, most: usize) -> Vec<String> {
        let list = |ids: Vec<String>| match ids.len().saturating_sub(most) {
            0 => ids.join(", "),
            more => format!("{} and {more} more, as plan.toml lists them", ids[..most].join(", ")),
        };
        let (of, skipped, cut) = (self.of, self.skipped.len(), self.truncated.len());
        let mut said = Vec::new();
        if let Some(tokens) = self.input_tokens {
            said.push(format!("Each prompt is cut to its first {}.", count(tokens, "token")));
        }
        if !self.short.is_empty() {
            let (short, ids) = (self.short.len(), list(self.short.clone()));
            said.push(format!("Left out as shorter, {short} of {of} prompts: {ids}."));
        }
        if skipped > 0 {
            let ids = list(self.skipped.clone());
            said.push(format!("Skipped as too long, {skipped} of {of} prompts: {ids}."));
        }
        let counts = [("prompts_per_category", self.per_category), ("prompts_limit", self.limit)];
        let set = counts.into_iter().filter_map(|(key, n)| Some(format!("{key} = {}", n?)));
        let set = set.collect::<Vec<_>>().join(", ");
        if !set.is_empty() {
            let left = of - skipped - self.short.len();
            said.push(format!("Chosen by the seed, of {left} prompts: {set}."));
        }
        if cut > 0 {
            let each = self.truncated.iter().map(|(id, cut)| format!("{id} ({cut} tokens fewer)"));
            let ids = list(each.collect());
            said.push(format!("Too long and cut at the beginning, {cut} of {of} prompts: {ids}."));
        }
        if !self.ended.is_empty() {
            let ids = list(self.ended.clone());
            said.push(format!("Turns left out as too long, with those after them: {ids}."));
        }
        said
    }
}

/// The context that each prompt and its continuation must fit into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room<'a> {
    /// The model whose context it is: the one with the smallest context.
    pub(super) model: &'a str,
    /// Its length in tokens.
    pub(super) context: usize,
}

impl Room<'_> {
    /// The length of the longest prompt that leaves room for `max_tokens`, in tokens.
    pub(super) fn before(self, max_tokens: usize) -> usize {
        self.context.saturating_sub(max_tokens)
    }
}

/// The prompts that are run.
#[derive(Debug)]
pub(super) struct Chosen {
    /// The chosen questions, as indices of all that the experiment names.
    pub(super) questions: Vec<usize>,
    pub(super) prompts: Vec<Prompt>,
    pub(super) tokens: Vec<Vec<Token>>,
    pub(super) choice: Choice,
}

/// The error that refuses the experiment and lists all prompts that are too long.
pub(super) fn too_long(
    spec: &Spec,
    room: Room<'_>,
    long: &[(String, usize)],
    of: usize,
) -> anyhow::Error {
    let Room { model, context } = room;
    let (max_tokens, most) = (spec.max_tokens, room.before(spec.max_tokens));
    let there = format!("the {context} tokens of the {model}'s context");
    if most == 0 {
        return anyhow!("max_tokens = {max_tokens} leaves no room for a prompt in {there}");
    }
    let there = format!("max_tokens = {max_tokens} leaves {most} of {there}");
    if long.is_empty() {
        return anyhow!("all {of} prompts are too long and skipped: {there}");
    }
    let ids = long.iter().map(|(id, tokens)| format!("{id} ({tokens} tokens)"));
    let instead = match spec.on_long_prompt {
        LongPrompt::Error if spec.chat => "on_long_prompt = \"skip\", or a smaller max_tokens",
        LongPrompt::Error => "on_long_prompt = \"skip\" or \"truncate\", or a smaller max_tokens",
        LongPrompt::Skip | LongPrompt::Truncate => "a smaller max_tokens",
    };
    anyhow!(
        "{} of {of} prompts are too long, since {there}: {}; set {instead}",
        long.len(),
        ids.collect::<Vec<_>>().join(", ")
    )
}
