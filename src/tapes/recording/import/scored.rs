//! Rounds that are expected of drafts, from the scores of a tape.

use anyhow::{Context, Result, bail};

use super::logged::RequestRounds;
use crate::tapes::tape::{AcceptanceRule, Tape};

/// The expected rounds of each scored completion, for every drafter, with drafts of `k` tokens: by
/// rejection sampling, or by another rule that decides if p is unknown.
///
/// # Errors
/// If nothing is scored, or drafts of a drafter are shorter.
pub(super) fn requests(tape: &Tape, k: usize) -> Result<Vec<RequestRounds>> {
    let mut requests = Vec::new();
    let originals = tape.originals();
    for (drafter, described) in tape.drafters.iter().enumerate() {
        if let Some(most) = described.most.filter(|most| *most < k) {
            bail!("its drafter {} drafts up to {most} tokens, not {k}", described.describe());
        }
        for (number, sequence) in tape.sequences.iter().enumerate() {
            let Some(odds) = tape.odds(drafter, number) else { continue };
            let rule = AcceptanceRule::ALL.into_iter().find(|rule| odds.knows(*rule));
            let rule = rule.context("its scores have neither log p nor greedy drafts")?;
            let setting = tape.header.samplings[sequence.sampling].words();
            // With one drafter, two tapes compare two of them.
            let several = tape.drafters.len() > 1;
            requests.push(RequestRounds {
                prompt: originals[number].to_owned(),
                group: if several { described.describe() + &setting } else { setting },
                category: sequence.category.clone(),
                tokens: sequence.tokens.len(),
                rounds: odds.forecast(rule, k).rounds,
                ..RequestRounds::default()
            });
        }
    }
    if requests.is_empty() {
        bail!("it holds neither rounds nor scores: `specdec tape score` adds scores");
    }
    Ok(requests)
}
