//! Requests of two logs, paired by prompt.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use crate::tapes::recording::RequestRounds;
use crate::tapes::tape::LoggedRound;

/// A prompt in both logs.
#[derive(Debug, Clone, Default)]
pub(super) struct PairedPrompt {
    pub(super) category: String,
    /// Tokens that both have.
    pub(super) tokens: f64,
    /// Rounds that begin within these, in each log.
    pub(super) rounds: [f64; 2],
    /// These rounds, as far as they are known one by one.
    pub(super) steps: [Vec<PlacedStep>; 2],
}

/// A round of a completion.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlacedStep {
    pub(super) round: LoggedRound,
    /// The share of the completion before it, if the order of rounds is known.
    pub(super) place: Option<f64>,
}

/// The pairs, in the order of the second log.
#[derive(Debug, Default)]
pub(super) struct Paired {
    pub(super) prompts: Vec<PairedPrompt>,
    pub(super) unmatched: [usize; 2],
    pub(super) paired_by: &'static str,
    pub(super) scaled: usize,
}

impl Paired {
    /// The rounds of a log.
    pub(super) fn rounds(&self, log: usize) -> impl Iterator<Item = &LoggedRound> {
        self.prompts.iter().flat_map(move |own| own.steps[log].iter().map(|step| &step.round))
    }
}

/// What names a request in both logs: cell, prompt, and its number among those of the prompt.
type PairKey<'r> = (&'r str, &'r str, usize);

/// Pairs requests by their prompts or, if these have no names in common, by their order.
pub(super) fn paired(logs: &[Vec<RequestRounds>; 2]) -> Result<Paired> {
    let keys = [&logs[0], &logs[1]].map(|log| keyed(log));
    let common = keys[1].iter().filter(|(key, _)| keys[0].contains_key(*key)).count();
    if common > 0 {
        let of = |key: &PairKey<'_>| keys[0].get(key).copied();
        let pairs = order(&logs[1]).filter_map(|(key, new)| Some((of(&key)?, new)));
        let unmatched = [logs[0].len() - common, logs[1].len() - common];
        return Ok(Paired { unmatched, paired_by: "prompt", ..compared(pairs) });
    }
    if logs[0].len() != logs[1].len() {
        bail!(
            "the logs have no prompt in common, and {} and {} requests, so that their order does \
             not pair them: log the requests with the responses, or a prompt_id",
            logs[0].len(),
            logs[1].len()
        );
    }
    Ok(Paired { paired_by: "order", ..compared(logs[0].iter().zip(&logs[1])) })
}

/// Requests with the number of those with the same prompt before them. A prompt without a name pairs
/// with none.
fn order(log: &[RequestRounds]) -> impl Iterator<Item = (PairKey<'_>, &RequestRounds)> {
    let mut seen = BTreeMap::<(&str, &str), usize>::new();
    let named = log.iter().filter(|own| !own.prompt.is_empty());
    named.map(move |own| {
        let number = seen.entry((&own.group, &own.prompt)).or_default();
        *number += 1;
        ((own.group.as_str(), own.prompt.as_str(), *number - 1), own)
    })
}

fn keyed(log: &[RequestRounds]) -> BTreeMap<PairKey<'_>, &RequestRounds> {
    order(log).collect()
}

/// Sums over the requests of each prompt, in the order in which prompts come first.
fn compared<'r>(pairs: impl Iterator<Item = (&'r RequestRounds, &'r RequestRounds)>) -> Paired {
    let mut found = Paired::default();
    let mut numbers = BTreeMap::<&str, usize>::new();
    for (base, new) in pairs {
        let tokens = base.tokens.min(new.tokens);
        let rounds = [base, new].map(|own| rounds_within(own, tokens));
        found.scaled += usize::from([base, new].iter().any(|own| !own.ordered));
        let at = if new.prompt.is_empty() { None } else { numbers.get(new.prompt.as_str()) };
        let at = at.copied().unwrap_or_else(|| {
            found.prompts.push(PairedPrompt::default());
            numbers.insert(&new.prompt, found.prompts.len() - 1);
            found.prompts.len() - 1
        });
        let own = &mut found.prompts[at];
        own.category.clone_from(&new.category);
        own.tokens += tokens as f64;
        for (sum, rounds) in own.rounds.iter_mut().zip(rounds) {
            *sum += rounds;
        }
        for (steps, log) in own.steps.iter_mut().zip([base, new]) {
            steps.extend(placed_steps(log, tokens));
        }
    }
    found
}

/// The rounds within the first tokens of a completion, if the log states what they drafted.
fn placed_steps(own: &RequestRounds, tokens: usize) -> Vec<PlacedStep> {
    let known = if own.ordered { steps_within(own, tokens) } else { own.steps.len() };
    let mut begin = 0;
    let steps = own.steps[..known].iter().filter(|_| own.drafted_known).map(|&round| {
        let place = own.ordered.then(|| begin as f64 / tokens.max(1) as f64);
        begin += round.accepted + 1;
        PlacedStep { round, place }
    });
    steps.collect()
}

/// How many steps begin within the first tokens of a completion.
fn steps_within(own: &RequestRounds, tokens: usize) -> usize {
    let mut emitted = 0;
    let begins = own.steps.iter().take_while(|step| {
        let begins = emitted < tokens;
        emitted += step.accepted + 1;
        begins
    });
    begins.count()
}

/// The number of rounds that begin within the first tokens. If the order of rounds is unknown, they
/// are spread evenly.
fn rounds_within(own: &RequestRounds, tokens: usize) -> f64 {
    match own.ordered {
        true => steps_within(own, tokens) as f64,
        false => own.rounds * tokens as f64 / own.tokens as f64,
    }
}
