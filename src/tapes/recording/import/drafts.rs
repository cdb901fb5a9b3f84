//! Drafts and rounds of a log, as lines of a tape.

use anyhow::{Context, Result, bail};

use super::logged::{LoggedDrafts, LoggedRounds};
use crate::tapes::recording::TapeFile;
use crate::tapes::tape::{DraftStart, LoggedRound, TapeDrafter, TapeLine, TapeLog, TapeScore};

/// Appends how far drafts along sequences were accepted, each with the index of its sequence. A
/// drafter whose largest draft is not logged is taken to draft its largest number of accepted
/// tokens.
pub(super) fn append_drafts(file: &mut TapeFile, drafts: Vec<(usize, LoggedDrafts)>) -> Result<()> {
    let mut drafters = Vec::<TapeDrafter>::new();
    for (_, own) in &drafts {
        let most = own.accepted.iter().copied().max();
        match drafters.iter_mut().find(|known| same(known, &own.drafter)) {
            Some(known) => known.most = known.most.max(most),
            None => drafters.push(TapeDrafter { most, ..own.drafter.clone() }),
        }
    }
    for drafter in &drafters {
        file.append(TapeLine::Drafter(drafter.clone()))?;
    }
    for (sequence, own) in drafts {
        let drafter = drafters.iter().position(|known| same(known, &own.drafter)).unwrap_or(0);
        let most = drafters[drafter].most.unwrap_or(0);
        let tokens = own.accepted.len();
        let start = |(at, accepted): (usize, usize)| DraftStart {
            drafted: most,
            log_q: vec![0.0; accepted.min(tokens - at)],
        };
        let starts = own.accepted.into_iter().enumerate().map(start).collect();
        let score = TapeScore { drafter, sequence, starts: Some(starts), ..TapeScore::default() };
        file.append(TapeLine::Score(score))?;
    }
    Ok(())
}

fn same(known: &TapeDrafter, own: &TapeDrafter) -> bool {
    (&known.drafter, &known.model) == (&own.drafter, &own.model)
}

/// The rounds of a decoding, their place in the log, and the sequence that they decoded, if the log
/// has it, too.
pub(super) type PlacedRounds = (String, Option<usize>, LoggedRounds);

/// Appends the rounds of decodings.
pub(super) fn append_rounds(
    file: &mut TapeFile,
    drafter: &TapeDrafter,
    rounds: Vec<PlacedRounds>,
) -> Result<()> {
    if rounds.is_empty() {
        return Ok(());
    }
    let drafted = |own: &LoggedRounds| own.rounds.iter().map(|round| round.drafted).max();
    let most = rounds.iter().filter_map(|(.., own)| drafted(own)).max().unwrap_or(0);
    let number = file.tape().drafters.len();
    file.append(TapeLine::Drafter(TapeDrafter { most: Some(most), ..drafter.clone() }))?;
    for (at, (place, sequence, own)) in rounds.into_iter().enumerate() {
        let mut log = log(number, at, most, own).with_context(|| place.clone())?;
        if let Some(own) = sequence.and_then(|at| file.tape().sequences.get(at)) {
            // The name of a response is another one for each of them.
            (log.prompt, log.prompt_tokens) = (own.prompt.clone(), own.prompt_tokens.len());
            log.sequence = sequence;
        }
        file.append(TapeLine::Log(log)).with_context(|| place)?;
    }
    Ok(())
}

fn log(drafter: usize, number: usize, most: usize, own: LoggedRounds) -> Result<TapeLog> {
    if own.rounds.is_empty() {
        bail!("it has no round");
    }
    let round = |round: LoggedRound| match own.drafted_known {
        true => round,
        false => LoggedRound { drafted: most, ..round },
    };
    let rounds = own.rounds.into_iter().map(round).collect::<Vec<_>>();
    let (last, before) = (&rounds[rounds.len() - 1], &rounds[..rounds.len() - 1]);
    let with_bonus = |round: &LoggedRound| round.accepted.saturating_add(1);
    let before = before.iter().map(with_bonus).fold(0, usize::saturating_add);
    // Programs count the tokens of a completion without those after its end, or not at all.
    let tokens =
        if own.tokens > before { own.tokens } else { before.saturating_add(with_bonus(last)) };
    let named = !own.prompt.is_empty();
    Ok(TapeLog {
        drafter,
        prompt: if named { own.prompt } else { format!("request-{number}") },
        category: own.category,
        verifier: None,
        sampling: 0,
        prompt_tokens: own.prompt_tokens,
        tokens,
        rounds,
        sequence: None,
        unordered: own.unordered,
    })
}
