//! Chooses the prompts of a run and their tokens: all prompts are tokenised, those that
//! are too long are refused, skipped or cut, and the seed chooses among the rest.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::prompts::Prompt;
use super::spec::Spec;
use super::values::LongPrompt;
use crate::distribution::Token;
use crate::model::Codec;

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
    /// Ids of the prompts that were left out because they are too long.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// Number of tokens cut from the beginning of prompts, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub truncated: BTreeMap<String, usize>,
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
        if skipped > 0 {
            let ids = list(self.skipped.clone());
            said.push(format!("Skipped as too long, {skipped} of {of} prompts: {ids}."));
        }
        let counts = [("prompts_per_category", self.per_category), ("prompts_limit", self.limit)];
        let set = counts.into_iter().filter_map(|(key, n)| Some(format!("{key} = {}", n?)));
        let set = set.collect::<Vec<_>>().join(", ");
        if !set.is_empty() {
            said.push(format!("Chosen by the seed, of {} prompts: {set}.", of - skipped));
        }
        if cut > 0 {
            let each = self.truncated.iter().map(|(id, cut)| format!("{id} ({cut} tokens fewer)"));
            let ids = list(each.collect());
            said.push(format!("Too long and cut at the beginning, {cut} of {of} prompts: {ids}."));
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
    fn before(self, max_tokens: usize) -> usize {
        self.context.saturating_sub(max_tokens)
    }
}

/// Returns the prompts to run, their tokens, and how they were chosen.
///
/// # Errors
/// Lists the prompts that cannot be run.
pub(super) fn choose(
    spec: &Spec,
    prompts: &[Prompt],
    codec: &dyn Codec,
    room: Room<'_>,
) -> Result<(Vec<Prompt>, Vec<Vec<Token>>, Choice)> {
    let (all, most) = (tokenise(prompts, codec)?, room.before(spec.max_tokens));
    let fits = |i: &usize| all[*i].len() <= most;
    let skips = spec.on_long_prompt == LongPrompt::Skip;
    let (left, skipped): (Vec<_>, Vec<_>) = (0..prompts.len()).partition(|i| !skips || fits(i));
    let chosen = draw(spec, prompts, left);
    // What the tokenizer puts before every text. A tokenizer that puts nothing there
    // cannot encode an empty text.
    let head = codec.encode("").unwrap_or_default();
    let long = chosen.iter().filter(|i| !fits(i)).map(|&i| (&prompts[i], all[i].len()));
    let long = long.collect::<Vec<_>>();
    let cuts = spec.on_long_prompt == LongPrompt::Truncate && most > head.len();
    if chosen.is_empty() || !(long.is_empty() || cuts) {
        bail!(too_long(spec, room, &long, chosen.len().max(skipped.len())));
    }
    let mut choice = Choice {
        of: prompts.len(),
        per_category: spec.prompts_per_category,
        limit: spec.prompts_limit,
        skipped: skipped.into_iter().map(|i| prompts[i].id.clone()).collect(),
        truncated: long.iter().map(|(p, tokens)| (p.id.clone(), tokens - most)).collect(),
    };
    if chosen.len() == prompts.len() && long.is_empty() {
        choice = Choice::default();
    }
    let tokens = chosen.iter().map(|&i| end_of(&all[i], most, &head)).collect();
    Ok((chosen.into_iter().map(|i| prompts[i].clone()).collect(), tokens, choice))
}

/// The error that refuses the experiment and lists all prompts that are too long.
fn too_long(spec: &Spec, room: Room<'_>, long: &[(&Prompt, usize)], of: usize) -> anyhow::Error {
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
    let ids = long.iter().map(|(prompt, tokens)| format!("{} ({tokens} tokens)", prompt.id));
    let instead = match spec.on_long_prompt {
        LongPrompt::Error => "on_long_prompt = \"skip\" or \"truncate\", or a smaller max_tokens",
        LongPrompt::Skip | LongPrompt::Truncate => "a smaller max_tokens",
    };
    anyhow!(
        "{} of {of} prompts are too long, since {there}: {}; set {instead}",
        long.len(),
        ids.collect::<Vec<_>>().join(", ")
    )
}

/// The tokens of all prompts.
fn tokenise(prompts: &[Prompt], codec: &dyn Codec) -> Result<Vec<Vec<Token>>> {
    let mut all = Vec::new();
    let mut bad = Vec::new();
    for prompt in prompts {
        match codec.encode(&prompt.text) {
            Ok(tokens) => all.push(tokens),
            Err(error) => bad.push((&prompt.id, error.to_string())),
        }
    }
    let Some((id, why)) = bad.first() else { return Ok(all) };
    let others = bad[1..].iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>().join(", ");
    let more = if others.is_empty() { others } else { format!(" (nor can {others})") };
    bail!("prompt {id} cannot be run: {why}{more}");
}

/// The prompts that the seed chooses, in their original order. A prompt's rank depends on
/// the seed and its id alone: a smaller number chooses a subset of what a larger one
/// chooses, and adding or removing prompts does not change the order of the others.
fn draw(spec: &Spec, prompts: &[Prompt], mut left: Vec<usize>) -> Vec<usize> {
    let rank = |i: &usize| {
        let mut hash = Sha256::new();
        hash.update(spec.seed.to_le_bytes());
        hash.update(&prompts[*i].id);
        hash.finalize()
    };
    left.sort_by_cached_key(rank);
    if let Some(most) = spec.prompts_per_category {
        let mut taken = BTreeMap::<&str, usize>::new();
        left.retain(|&i| {
            let taken = taken.entry(&prompts[i].category).or_default();
            *taken += 1;
            *taken <= most
        });
    }
    left.truncate(spec.prompts_limit.unwrap_or(usize::MAX));
    left.sort_unstable();
    left
}

/// Cuts a prompt to at most `most` tokens: the tokens of `head` that it begins with, and
/// its end.
fn end_of(tokens: &[Token], most: usize, head: &[Token]) -> Vec<Token> {
    let cut = tokens.len().saturating_sub(most);
    let kept = head.iter().zip(tokens).take_while(|(a, b)| a == b).count();
    [&tokens[..kept], &tokens[kept + cut..]].concat()
}
