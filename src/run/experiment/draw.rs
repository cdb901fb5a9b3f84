//! Chooses the prompts of a run and their tokens: all prompts are tokenised, those that
//! are too long are refused, skipped or cut, and the seed chooses among the rest.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use sha2::{Digest, Sha256};

use super::choice::{Choice, Chosen, Room, too_long};
use super::prompts::check_unique;
use super::spec::Spec;
use super::turns::Script;
use super::values::LongPrompt;
use crate::core::distribution::Token;
use crate::run::prompt::Question;

/// Returns the first turns to run, their tokens, and how they were chosen.
///
/// # Errors
/// Lists the prompts that cannot be run.
pub(super) fn choose(spec: &Spec, script: &Script<'_>, room: Room<'_>) -> Result<Chosen> {
    let questions = script.questions();
    check_unique(questions.iter().map(|question| &*question.id))?;
    let (mut all, most) = (tokenise(script)?, room.before(spec.max_tokens));
    let (long, short) = cut(spec, &mut all)?;
    let fits = |i: &usize| all[*i].len() <= most;
    let skips = spec.on_long_prompt == LongPrompt::Skip;
    let (left, skipped): (Vec<_>, Vec<_>) = long.into_iter().partition(|i| !skips || fits(i));
    let chosen = draw(spec, questions, left);
    let head = script.head();
    let long = chosen.iter().filter(|i| !fits(i));
    let long = long.map(|&i| (questions[i].id.clone(), all[i].len())).collect::<Vec<_>>();
    let cuts = spec.on_long_prompt == LongPrompt::Truncate && most > head.len();
    if chosen.is_empty() || !(long.is_empty() || cuts) {
        bail!(too_long(spec, room, &long, chosen.len().max(skipped.len())));
    }
    let ids = |left_out: Vec<usize>| -> Vec<String> {
        left_out.into_iter().map(|i| questions[i].id.clone()).collect()
    };
    let mut choice = Choice {
        of: questions.len(),
        per_category: spec.prompts_per_category,
        limit: spec.prompts_limit,
        input_tokens: spec.input_tokens,
        short: ids(short),
        skipped: ids(skipped),
        truncated: long.iter().map(|(id, tokens)| (id.clone(), tokens - most)).collect(),
        ended: Vec::new(),
    };
    if chosen.len() == questions.len() && long.is_empty() && spec.input_tokens.is_none() {
        choice = Choice::default();
    }
    let tokens = chosen.iter().map(|&i| end_of(&all[i], most, &head)).collect();
    let prompts = chosen.iter().map(|&i| script.first(&questions[i])).collect();
    Ok(Chosen { questions: chosen, prompts, tokens, choice })
}

/// Cuts all prompts to `input_tokens`. Returns the places of those that have as many, and of those
/// that have fewer.
fn cut(spec: &Spec, all: &mut [Vec<Token>]) -> Result<(Vec<usize>, Vec<usize>)> {
    let Some(wanted) = spec.input_tokens else { return Ok(((0..all.len()).collect(), Vec::new())) };
    let (long, short): (Vec<_>, Vec<_>) = (0..all.len()).partition(|&i| all[i].len() >= wanted);
    if long.is_empty() {
        let (count, longest) = (all.len(), all.iter().map(Vec::len).max().unwrap_or(0));
        bail!(
            "all {count} prompts are shorter than input_tokens = {wanted}: the longest has \
             {longest} tokens"
        );
    }
    for tokens in all {
        tokens.truncate(wanted);
    }
    Ok((long, short))
}

/// The tokens of the first turns of all questions.
fn tokenise(script: &Script<'_>) -> Result<Vec<Vec<Token>>> {
    let mut all = Vec::new();
    let mut bad = Vec::new();
    for question in script.questions() {
        match script.encode_first(question) {
            Ok(tokens) => all.push(tokens),
            Err(error) => bad.push((&question.id, error.to_string())),
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
fn draw(spec: &Spec, prompts: &[Question], mut left: Vec<usize>) -> Vec<usize> {
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
