//! The decode loop: a state machine and its driver.
//!
//! [`Generation`] defines the steps of a round, independent of engines and clocks: it
//! returns what the target must evaluate and takes the result. [`generate`] drives one
//! generation. Plain autoregressive decoding is the same loop with the drafter `none`.

mod choice;
mod generation;
mod method;
mod stop;
mod strategy;
mod text;

pub use choice::{Answered, LogProb, TextChoice, votes};
pub use generation::{Evaluated, Generation, Method, Outcome, Proposal};
pub(crate) use generation::{NO_DISTRIBUTION, check_prompt};
pub use method::{
    MethodSpec, NUM_SPECULATIVE_TOKENS, PLAIN, all_params, class_of, find_param, readers,
};
pub use stop::{StopReason, StopRules, UserStop};
pub use strategy::{STRATEGIES, Strategy};
pub use text::TextStream;

use std::time::Duration;

use crate::chance::Chance;
use crate::clock::{Clock, Who};
use crate::error::Error;
use crate::model::{LanguageModel, evaluate_one};
use crate::round::{RoundEvent, RoundTimes};

/// Receives the events of a generation. All methods do nothing by default; the time
/// spent in them does not count as decoding.
pub trait Observer {
    /// Called after every round.
    ///
    /// # Errors
    /// If the event cannot be recorded; the generation then ends.
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        let _ = event;
        Ok(())
    }

    /// Called with the text that became final in the last round.
    fn text(&mut self, text: &str) {
        let _ = text;
    }
}

/// An observer that does nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// What one generation cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Number of passes of the target, without prefill.
    pub target_forwards: usize,
    /// Number of passes of the drafter's model, without prefill.
    pub draft_forwards: usize,
    /// Time of the prefill of draft model and target.
    pub prefill: Duration,
    /// Time of all rounds.
    pub decode: Duration,
}

/// Runs a generation to its end.
///
/// # Errors
/// If a model fails, logits do not define a distribution, or the observer cannot
/// record.
pub fn generate(
    generation: &mut Generation<'_>,
    target: &dyn LanguageModel,
    chance: &mut dyn Chance,
    clock: &dyn Clock,
    observer: &mut dyn Observer,
) -> Result<Totals, Error> {
    let mut totals = prefill(generation, target, clock)?;
    while generation.begin(totals.decode).is_none() {
        one_round(generation, target, chance, clock, observer, &mut totals)?;
    }
    generation.finish()?;
    observer.text(generation.take_text());
    Ok(totals)
}

/// Processes the prompt.
///
/// # Errors
/// If a model fails.
pub fn prefill(
    generation: &mut Generation<'_>,
    target: &dyn LanguageModel,
    clock: &dyn Clock,
) -> Result<Totals, Error> {
    let start = clock.now();
    if let Some(work) = generation.prefill(clock)? {
        let computed = evaluate_one(target, work)?.computed;
        clock.forward(Who::Target, computed);
    }
    Ok(Totals { prefill: clock.now() - start, ..Totals::default() })
}

/// Runs one round of a generation that has begun it, and adds what it cost to `totals`, whose
/// passes of the target number the rounds.
///
/// # Errors
/// As [`generate`].
pub fn one_round(
    generation: &mut Generation<'_>,
    target: &dyn LanguageModel,
    chance: &mut dyn Chance,
    clock: &dyn Clock,
    observer: &mut dyn Observer,
    totals: &mut Totals,
) -> Result<(), Error> {
    let round = totals.target_forwards as u64;
    chance.begin_round(round);
    let begun = clock.now();
    let proposal = generation.propose(chance, clock)?;
    let drafted = clock.now();
    let evaluation = evaluate_one(target, generation.work(&proposal))?;
    clock.forward(Who::Target, evaluation.computed);
    let passed = clock.now();
    let evaluated = generation.evaluated(&proposal, evaluation)?;
    let verdict = generation.verify(&proposal, &evaluated, chance);
    let decided = clock.now();
    let mut outcome = generation.apply(&proposal, verdict)?;
    outcome.times = RoundTimes {
        draft: drafted - begun,
        target: passed - drafted,
        verify: decided - passed,
        other: clock.now() - decided,
    };
    let telling = clock.now();
    generation.observe(round, &proposal, &evaluated, &outcome);
    outcome.times.other += clock.now() - telling;
    observer.round(&outcome.event(round, generation.tokens(), &proposal, &evaluated))?;
    observer.text(generation.take_text());
    totals.target_forwards += 1;
    totals.draft_forwards += proposal.forwards;
    totals.decode += outcome.times.total();
    Ok(())
}
