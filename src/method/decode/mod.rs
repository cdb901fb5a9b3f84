//! The decode loop: a state machine and its driver.
//!
//! [`Generation`] defines the steps of a round, independent of engines and clocks: it
//! returns what the target must evaluate and takes the result. [`generate`] drives one
//! generation. Plain autoregressive decoding is the same loop with the drafter `none`.

mod certified;
mod checks;
mod choice;
mod generation;
mod method;
mod rounds;
mod steps;
mod stop;
mod strategy;
mod text;

#[cfg(feature = "harness")]
pub use certified::certified;
pub use certified::{CertificateVerdict, Certified};
pub(crate) use checks::check_prompt;
pub use choice::{Answered, CompletionChoice, LogProb, votes};
pub(crate) use generation::NO_DISTRIBUTION;
pub use generation::{Generation, Method};
pub use method::{MethodSpec, NUM_SPECULATIVE_TOKENS, all_params, class_of, find_param, readers};
pub use rounds::{Sequence, generate_together, one_round_together};
pub use steps::{Evaluated, Outcome, Proposal};
pub(crate) use stop::room_for;
pub use stop::{StopReason, StopRules, UserStop};
pub use strategy::{STRATEGIES, Strategy};
pub use text::TextStream;

use std::time::Duration;

use crate::core::chance::Chance;
use crate::core::clock::Clock;
use crate::core::error::Error;
use crate::core::round::RoundEvent;
pub use crate::method::draft::PLAIN;
use crate::model::LanguageModel;

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

/// The cost of one generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Number of passes of the target, without prefill.
    pub target_forwards: usize,
    /// Number of passes of the drafter's model, without prefill.
    pub draft_forwards: usize,
    /// Number of rounds without a draft because the context of the drafter's model was full.
    pub draft_context_full: usize,
    /// Time of the prefill of draft model and target.
    pub prefill: Duration,
    /// Time of all rounds.
    pub decode: Duration,
    /// Its share of the decode time: the time of each round divided by the number of generations in
    /// it. The shares of all generations sum to the total time of their rounds.
    pub share: Duration,
}

impl Totals {
    /// Number of finished rounds, which is also the number of the next one.
    pub(crate) fn rounds(&self) -> u64 {
        self.target_forwards as u64
    }

    /// Adds a round.
    fn add(&mut self, proposal: &Proposal, outcome: &Outcome) {
        self.target_forwards += 1;
        self.draft_forwards += proposal.forwards;
        self.draft_context_full += usize::from(proposal.full);
        self.decode += outcome.times.total();
        self.share += outcome.times.share(outcome.batch).total();
    }
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
    let mut alone = [Sequence::new(generation, chance, observer, &mut totals)];
    generate_together(&mut alone, target, clock);
    let [Sequence { end, .. }] = alone;
    end.unwrap_or(Ok(())).map(|()| totals)
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
    generation.prefill(target, clock)?;
    Ok(Totals { prefill: clock.now() - start, ..Totals::default() })
}
