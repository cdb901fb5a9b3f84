//! Consistency checks of the raw rows: against the digests recorded when they were written,
//! and against each other.

use std::collections::BTreeMap;

use anyhow::Result;
use sha2::{Digest, Sha256};

use crate::experiment::Plan;
use crate::model::hex;
use crate::rows::BlockRows;
use crate::rows::{BlockRow, GenerationRow, RoundRow, TextRow};

/// Times are whole nanoseconds, so a difference of less than half a nanosecond between two
/// sums is floating-point rounding.
const ROUNDING_US: f64 = 0.0005;

/// Describes every inconsistency in the rows of a block; empty if there is none.
///
/// # Errors
/// If a row cannot be serialized.
pub(super) fn misfits(plan: &Plan, block: &BlockRow, rows: &BlockRows) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    if !block.is_sealed()? {
        wrong.push("its row in blocks.csv is not the one that was written".to_owned());
    }
    let found = rows.digests()?;
    let (written, found) = (block.digests.split('-'), found.split('-'));
    let counts = block.counts().into_iter().zip(rows.counts());
    let files = rows.files()?;
    for (((name, _), (wanted, have)), (written, found)) in
        files.iter().zip(counts).zip(written.zip(found))
    {
        if wanted != have {
            wrong.push(format!("{name} has {have} of its {wanted} rows"));
        } else if written != found {
            wrong.push(format!("its rows in {name} are not those that were written"));
        }
    }
    let texts = rows.texts.iter().map(|text| (text.cell.as_str(), text));
    let texts = texts.collect::<BTreeMap<_, _>>();
    for generation in &rows.generations {
        let cell = generation.cell.as_str();
        let rounds = rows.rounds.iter().filter(|r| r.cell == cell).collect::<Vec<_>>();
        let text = texts.get(cell).copied();
        if let Some(what) = misfit(plan, generation, &rounds, text) {
            wrong.push(format!("cell {cell}: {what}"));
        }
    }
    Ok(wrong)
}

/// The first inconsistency in the rows of a generation.
fn misfit(
    plan: &Plan,
    generation: &GenerationRow,
    rounds: &[&RoundRow],
    text: Option<&TextRow>,
) -> Option<&'static str> {
    let sum = |of: fn(&RoundRow) -> usize| rounds.iter().map(|r| of(r)).sum::<usize>();
    let us = rounds.iter().map(|r| r.draft_us + r.target_us + r.verify_us + r.other_us);
    let late = (us.sum::<f64>() - generation.decode_us).abs();
    let numbered = rounds.iter().enumerate().all(|(i, r)| r.round == i as u64);
    let hash = |text: &TextRow| hex(&Sha256::digest(&text.text));
    let checks = [
        (numbered, "its rounds are not numbered from 0"),
        (follow(generation.prompt_tokens, rounds), "its rounds do not follow each other"),
        (rounds.iter().all(|r| is_sound(r)), "a round accepts more tokens than it drafts"),
        (sum(|r| r.emitted) == generation.new_tokens, "emitted does not sum to new_tokens"),
        (
            rounds.len() == generation.target_forwards,
            "target_forwards is not the number of its \
             rounds",
        ),
        (sum(|r| r.draft_forwards) == generation.draft_forwards, "draft_forwards is not the sum"),
        (late < ROUNDING_US, "the times of its rounds do not sum to decode_us"),
        (generation.seed == plan.seed, "its seed is not the plan's"),
        (
            text.is_some_and(|t| t.tokens.len() == generation.new_tokens),
            "its text does not have new_tokens tokens",
        ),
        (text.is_some_and(|t| hash(t) == generation.text_sha256), "its text has another hash"),
    ];
    checks.into_iter().find(|(fits, _)| !fits).map(|(_, what)| what)
}

/// Whether each round begins at the context length at which the previous one ended.
fn follow(prompt_tokens: usize, rounds: &[&RoundRow]) -> bool {
    let mut context = prompt_tokens;
    rounds.iter().all(|round| {
        let here = round.context_tokens == context;
        context += round.emitted;
        here
    })
}

/// Whether the counts and times of a round are possible.
fn is_sound(round: &RoundRow) -> bool {
    let times = [round.draft_us, round.target_us, round.verify_us, round.other_us];
    round.accepted <= round.depth
        && round.depth <= round.proposed
        && round.reached <= round.proposed
        && round.emitted >= 1
        && round.truncated == (round.emitted < round.accepted + 1)
        && times.into_iter().all(|us| us >= 0.0 && us.is_finite())
}
