//! Answers of Spec-Bench (Xia et al. 2024, arXiv 2401.07851), with the tokens of each step, and
//! traces of SpecDecode-Bench (Liu et al. 2026, arXiv 2601.11580), with the tokens that a step
//! from each token on would give.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::logged::{
    LoggedDrafts, LoggedLine, LoggedRounds, LoggedSequence, LoggedToken, counts, ids, list, text,
};
use super::{TapeFormat, TapeReader};
use crate::tapes::tape::{LoggedRound, TapeDrafter, TapeModel};

pub(super) const FORMAT: TapeFormat = TapeFormat {
    name: "specbench",
    summary: "answers of Spec-Bench (accept_lengths, for simulation alone), or traces of \
              SpecDecode-Bench (acc_len by token)",
    read: TapeReader::Lines(read),
};

/// The lists of a trace with their drafters; only the lookup has no model.
const TRACED: [(&str, &str, &str); 3] = [
    ("acc_ngram", "prompt_lookup", ""),
    ("acc_eagle", "model", "eagle"),
    ("acc_eagle_three", "model", "eagle3"),
];

fn read(line: &Value) -> Result<LoggedLine> {
    match (line.get("generated_token_ids"), line.get("choices")) {
        (Some(tokens), _) => Ok(vec![trace(line, tokens)?].into()),
        (None, Some(_)) => answers(line),
        (None, None) => bail!(
            "it is neither an answer of Spec-Bench (\"choices\") nor a trace of SpecDecode-Bench \
             (\"generated_token_ids\")"
        ),
    }
}

/// A sequence, and how far drafts along it were accepted. They are greedy, so no probability is
/// needed.
fn trace(line: &Value, tokens: &Value) -> Result<LoggedSequence> {
    let tokens = ids(Some(tokens))?.context("\"generated_token_ids\" is no list of ids")?;
    let (mut drafts, mut foreign_drafts) = (Vec::new(), 0);
    for (key, drafter, model) in TRACED {
        let Some(listed) = line.get(key) else { continue };
        let Some(lengths) = counts(Some(listed.get("acc_len").unwrap_or(listed)))? else {
            continue;
        };
        // The list of a method that generated another completion belongs to that one.
        if lengths.len() != tokens.len() {
            foreign_drafts += 1;
            continue;
        }
        // A length counts the token that follows the accepted ones.
        let accepted = lengths.into_iter().map(|length| length.saturating_sub(1)).collect();
        drafts.push(LoggedDrafts { drafter: drafter_of(drafter, model), accepted });
    }
    if drafts.is_empty() && foreign_drafts == 0 {
        bail!("it has none of the lists acc_ngram, acc_eagle and acc_eagle_three");
    }
    let token = |id| LoggedToken { id: Some(id), ..LoggedToken::default() };
    Ok(LoggedSequence {
        prompt_tokens: ids(line.get("prompt_token_ids"))?,
        tokens: tokens.into_iter().map(token).collect(),
        stopped: true,
        drafts,
        foreign_drafts,
        ..LoggedSequence::default()
    })
}

fn drafter_of(drafter: &str, model: &str) -> TapeDrafter {
    let named = || TapeModel { name: model.to_owned(), ..TapeModel::default() };
    let (drafter, model) = (drafter.to_owned(), (!model.is_empty()).then(named));
    TapeDrafter { drafter, model, ..TapeDrafter::default() }
}

/// The turns of an answer.
fn answers(line: &Value) -> Result<LoggedLine> {
    let category = text(line.get("category")).unwrap_or_default();
    let question = line.get("question_id").map(Value::to_string).unwrap_or_default();
    let mut rounds = Vec::new();
    for choice in list(line, "choices")? {
        let part = |name: &str| counts(choice.get(name));
        let lengths = part("accept_lengths")?.context("it has no list \"accept_lengths\"")?;
        let tokens = part("new_tokens")?.unwrap_or_default();
        let steps = part("decoding_steps")?.unwrap_or_else(|| vec![lengths.len()]);
        if steps.iter().sum::<usize>() != lengths.len() {
            bail!(
                "its decoding steps are {}, and \"accept_lengths\" has {}",
                steps.iter().sum::<usize>(),
                lengths.len()
            );
        }
        let mut rest = &lengths[..];
        for (turn, &steps) in steps.iter().enumerate() {
            let (own, left) = rest.split_at(steps);
            rest = left;
            let own = own.iter().map(|length| length.saturating_sub(1));
            rounds.push(LoggedRounds {
                prompt: format!("{question}-{turn}"),
                category: category.clone(),
                tokens: tokens.get(turn).copied().unwrap_or_default(),
                rounds: own.map(|accepted| LoggedRound::from((accepted, accepted))).collect(),
                ..LoggedRounds::default()
            });
        }
    }
    rounds.retain(|own| !own.rounds.is_empty());
    Ok(LoggedLine { rounds, ..LoggedLine::default() })
}
