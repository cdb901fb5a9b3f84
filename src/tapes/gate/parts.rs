//! Where acceptance has changed: by position of a draft, and by category.

use std::collections::BTreeMap;

use serde::Serialize;

use super::pairs::{Paired, PairedPrompt};
use crate::measure::statistics::Ratio;
use crate::tapes::tape::LoggedRound;

/// Acceptance at a position of a draft, in each log.
#[derive(Debug, Clone, Serialize)]
pub struct GatePosition {
    /// The position, from 1.
    pub position: usize,
    /// Drafted tokens at this position that were decided on: all before them were accepted.
    pub reached: [usize; 2],
    /// Those that were accepted.
    pub accepted: [usize; 2],
}

/// The change of a category.
#[derive(Debug, Clone, Serialize)]
pub struct GateCategory {
    /// Its name.
    pub category: String,
    /// The number of its prompts.
    pub prompts: usize,
    /// Tokens per round in each log.
    pub tau: [f64; 2],
    /// The second ÷ the first.
    pub ratio: Option<f64>,
    /// The lower end of its 95 % interval over prompts.
    pub ratio_lo: Option<f64>,
    /// Its upper end.
    pub ratio_hi: Option<f64>,
}

/// The share of drafted tokens that were accepted.
pub(super) fn acceptance(found: &Paired) -> [Option<f64>; 2] {
    [0, 1].map(|at| {
        let sum = |of: fn(&LoggedRound) -> usize| found.rounds(at).map(of).sum::<usize>();
        let [accepted, drafted] = [sum(|step| step.accepted), sum(|step| step.drafted)];
        (drafted > 0).then(|| accepted as f64 / drafted as f64)
    })
}

pub(super) fn positions(found: &Paired) -> Vec<GatePosition> {
    let steps = [0, 1].into_iter().flat_map(|log| found.rounds(log));
    let most = steps.map(|step| step.drafted.min(step.accepted + 1)).max().unwrap_or(0);
    let at = |position: usize| {
        let count = |is: &dyn Fn(&LoggedRound) -> bool| {
            [0, 1].map(|log| found.rounds(log).filter(|step| is(step)).count())
        };
        GatePosition {
            position,
            reached: count(&|step| step.drafted >= position && step.accepted + 1 >= position),
            accepted: count(&|step| step.accepted >= position),
        }
    };
    (1..=most).map(at).collect()
}

pub(super) fn categories(found: &Paired) -> Vec<GateCategory> {
    let mut all = BTreeMap::<&str, Vec<&PairedPrompt>>::new();
    for own in &found.prompts {
        all.entry(&own.category).or_default().push(own);
    }
    if all.len() < 2 {
        return Vec::new();
    }
    let category = |(category, prompts): (&str, Vec<&PairedPrompt>)| {
        let ratio = Ratio::of(prompts.iter().map(|own| ([own.rounds[0]], [own.rounds[1]])));
        let interval = ratio.interval();
        let tokens = prompts.iter().map(|own| own.tokens).sum::<f64>();
        let rounds = |at: usize| prompts.iter().map(|own| own.rounds[at]).sum::<f64>();
        GateCategory {
            category: category.to_owned(),
            prompts: prompts.len(),
            tau: [tokens / rounds(0), tokens / rounds(1)],
            ratio: ratio.value(),
            ratio_lo: interval.map(|interval| interval.lo),
            ratio_hi: interval.map(|interval| interval.hi),
        }
    };
    all.into_iter().map(category).collect()
}
