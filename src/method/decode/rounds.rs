//! The decode loop: rounds of one sequence, or of several that share passes.

use std::fmt;
use std::time::Duration;

use super::generation::Generation;
use super::steps::{Evaluated, Outcome, Proposal};
use super::{Observer, Totals};
use crate::core::chance::Chance;
use crate::core::clock::{Clock, Who};
use crate::core::error::Error;
use crate::core::round::RoundTimes;
use crate::method::draft::complete;
use crate::method::length::BatchView;
use crate::model::{Evaluation, LanguageModel};

/// Runs sequences, after their prefill, until each has ended or failed, in rounds that they share.
pub fn generate_together(
    sequences: &mut [Sequence<'_, '_>],
    target: &dyn LanguageModel,
    clock: &dyn Clock,
) {
    loop {
        for one in live(sequences) {
            one.begin();
        }
        if live(sequences).next().is_none() {
            return;
        }
        one_round_together(sequences, target, clock);
    }
}

/// Runs a round of each live sequence, after [`Generation::begin`]. Their drafts share passes, and
/// one pass of the target evaluates all drafts. Each sequence makes the same draws and decisions as
/// it would alone. One that fails does not affect the others, but a pass that fails does so for all
/// that need it.
pub fn one_round_together(
    sequences: &mut [Sequence<'_, '_>],
    target: &dyn LanguageModel,
    clock: &dyn Clock,
) {
    let batch = live(sequences).count();
    let mut lap = laps(clock);
    propose(sequences, clock);
    let draft = lap();
    let mut evaluations = evaluate(sequences, target, clock).into_iter();
    let mut times = RoundTimes { draft, target: lap(), ..RoundTimes::default() };
    for one in live(sequences) {
        one.attempt(|one| {
            let rows =
                evaluations.next().ok_or_else(|| Error::engine("a pass lacks a sequence"))?;
            one.evaluated = one.generation.evaluated(&one.proposal, rows)?;
            let verdict = one.generation.verify(&one.proposal, &one.evaluated, one.chance);
            times.verify += lap();
            one.outcome = one.generation.commit(&one.proposal, verdict)?;
            Ok(())
        });
        times.other += lap();
    }
    for one in live(sequences) {
        one.observe(times, batch);
    }
    times.other += lap();
    for one in live(sequences) {
        one.attempt(|one| one.report(times));
    }
}

/// The draft of each sequence, from passes of the draft model that they share.
fn propose(sequences: &mut [Sequence<'_, '_>], clock: &dyn Clock) {
    let pasts = live(sequences).map(|one| one.generation.past()).collect::<Vec<_>>();
    let mut drafts = Vec::with_capacity(pasts.len());
    for (own, one) in live(sequences).enumerate() {
        one.chance.begin_round(one.totals.rounds());
        let batch = BatchView { sequences: &pasts, own };
        drafts.push(one.generation.begin_draft(&batch, one.chance));
    }
    let proposals = complete(drafts, clock);
    for (one, proposal) in live(sequences).zip(proposals) {
        one.attempt(|one| proposal.map(|made| one.proposal = made));
    }
}

/// The target's rows for each draft, from one pass; if it fails, it fails for all.
fn evaluate(
    sequences: &mut [Sequence<'_, '_>],
    target: &dyn LanguageModel,
    clock: &dyn Clock,
) -> Vec<Evaluation> {
    let live = live(sequences).collect::<Vec<_>>();
    let mut sessions = live.iter().map(|one| one.generation.session()).collect::<Vec<_>>();
    let each = live.iter().zip(&mut sessions);
    let work = each.map(|(one, session)| one.generation.work(session, &one.proposal));
    let made = target.evaluate(&mut work.collect::<Vec<_>>());
    drop(sessions);
    let made = made.unwrap_or_else(|error| {
        for one in live {
            one.end = Some(Err(error.clone()));
        }
        Vec::new()
    });
    clock.forward(Who::Target, made.iter().map(|rows| rows.computed).sum());
    made
}

/// Those that have neither ended nor failed.
fn live<'s, 'l, 'a>(
    sequences: &'s mut [Sequence<'l, 'a>],
) -> impl Iterator<Item = &'s mut Sequence<'l, 'a>> {
    sequences.iter_mut().filter(|one| one.end.is_none())
}

/// The time since the last call.
fn laps(clock: &dyn Clock) -> impl FnMut() -> Duration {
    let mut begun = clock.now();
    move || {
        let now = clock.now();
        now - std::mem::replace(&mut begun, now)
    }
}

/// A generation with all that its rounds need and leave.
pub struct Sequence<'l, 'a> {
    /// Its tokens and its method.
    pub generation: &'l mut Generation<'a>,
    /// Its random numbers.
    pub chance: &'l mut dyn Chance,
    /// The observer of its rounds.
    pub observer: &'l mut dyn Observer,
    /// Its cost so far. A shared pass, and the time of a shared round, counts fully in each sequence.
    pub totals: &'l mut Totals,
    /// How it has ended; `None` while it has another round.
    pub end: Option<Result<(), Error>>,
    /// Its last draft, and what became of it.
    proposal: Proposal,
    evaluated: Evaluated,
    outcome: Outcome,
}

impl fmt::Debug for Sequence<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequence").field("generation", self.generation).finish_non_exhaustive()
    }
}

impl<'l, 'a> Sequence<'l, 'a> {
    /// A sequence before its next round.
    pub fn new(
        generation: &'l mut Generation<'a>,
        chance: &'l mut dyn Chance,
        observer: &'l mut dyn Observer,
        totals: &'l mut Totals,
    ) -> Self {
        let (proposal, evaluated) = (Proposal::default(), Evaluated::default());
        let outcome = Outcome::default();
        Self { generation, chance, observer, totals, end: None, proposal, evaluated, outcome }
    }

    /// Takes a step; an error ends the sequence.
    fn attempt(&mut self, step: impl FnOnce(&mut Self) -> Result<(), Error>) {
        if let Err(error) = step(self) {
            self.end = Some(Err(error));
        }
    }

    /// Ends the sequence if one of its stop rules holds.
    fn begin(&mut self) {
        if self.generation.begin(self.totals.decode).is_some() {
            self.end = Some(self.finish());
        }
    }

    /// Ends the text stream and reports the last text.
    fn finish(&mut self) -> Result<(), Error> {
        self.generation.finish()?;
        self.observer.text(self.generation.take_text());
        Ok(())
    }

    /// Reports the round to the drafter and the length policy.
    fn observe(&mut self, times: RoundTimes, batch: usize) {
        (self.outcome.times, self.outcome.batch) = (times, batch);
        let round = self.totals.rounds();
        self.generation.observe(round, &self.proposal, &self.evaluated, &self.outcome);
    }

    /// Reports the round to the observer, and counts it.
    fn report(&mut self, times: RoundTimes) -> Result<(), Error> {
        self.outcome.times = times;
        let (round, tokens) = (self.totals.rounds(), self.generation.tokens());
        let event = self.outcome.event(round, tokens, &self.proposal, &self.evaluated);
        self.observer.round(&event)?;
        self.observer.text(self.generation.take_text());
        self.totals.add(&self.proposal, &self.outcome);
        Ok(())
    }
}
