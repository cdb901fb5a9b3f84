//! Rounds of several generations that share passes.

use std::fmt;

use super::generation::Generation;
use super::steps::{Evaluated, Outcome, Proposal};
use super::{Observer, Totals};
use crate::chance::Chance;
use crate::clock::{Clock, Who};
use crate::draft::{PassDesk, make_passes};
use crate::error::Error;
use crate::length::BatchView;
use crate::model::{Evaluation, LanguageModel};
use crate::round::{RoundTimes, Verdict};

/// One of several generations that share rounds.
pub struct Lane<'l, 'a> {
    /// The generation, after [`Generation::begin`] of the round.
    pub generation: &'l mut Generation<'a>,
    /// Its random numbers.
    pub chance: &'l mut dyn Chance,
    /// The observer of its rounds.
    pub observer: &'l mut dyn Observer,
    /// Its cost so far. The number of its target passes is also the number of its next round. A
    /// shared pass, and the time of a shared round, counts fully in each lane.
    pub totals: &'l mut Totals,
}

impl fmt::Debug for Lane<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("generation", self.generation).finish_non_exhaustive()
    }
}

/// Runs generations, after their prefill, to their ends in shared rounds. A generation that has
/// ended or failed leaves the batch.
///
/// # Errors
/// If a model fails in a pass that several generations need.
pub fn generate_together(
    lanes: &mut [Lane<'_, '_>],
    target: &dyn LanguageModel,
    clock: &dyn Clock,
) -> Result<Vec<Result<(), Error>>, Error> {
    let mut ends = lanes.iter().map(|_| None).collect::<Vec<_>>();
    loop {
        let open = lanes.iter_mut().zip(&mut ends).filter_map(|(lane, end)| {
            if end.is_none() && lane.generation.begin(lane.totals.decode).is_some() {
                *end = Some(lane.finish());
            }
            end.is_none().then(|| (lane.again(), end))
        });
        let (mut open, ends): (Vec<_>, Vec<_>) = open.unzip();
        if open.is_empty() {
            break;
        }
        for (end, round) in ends.into_iter().zip(one_round_together(&mut open, target, clock)?) {
            *end = round.err().map(Err);
        }
    }
    Ok(ends.into_iter().flatten().collect())
}

/// A lane's round up to some step, or the error with which it failed.
type InRound<T> = Result<(Proposal, Evaluated, T), Error>;

/// Runs a round of each generation. Their drafts share passes, and one target pass evaluates all
/// drafts. Each generation makes the same draws and decisions as it would alone. A failing
/// generation does not affect the others.
///
/// # Errors
/// If a model fails in a pass that several generations need.
pub fn one_round_together(
    lanes: &mut [Lane<'_, '_>],
    target: &dyn LanguageModel,
    clock: &dyn Clock,
) -> Result<Vec<Result<(), Error>>, Error> {
    let begun = clock.now();
    let proposals = propose(lanes, clock)?;
    let drafted = clock.now();
    let evaluations = evaluate(lanes, &proposals, target, clock)?;
    let passed = clock.now();
    let verdicts = verify(lanes, proposals, evaluations);
    let decided = clock.now();
    let mut outcomes = apply(lanes, verdicts);
    let mut times = RoundTimes {
        draft: drafted - begun,
        target: passed - drafted,
        verify: decided - passed,
        other: clock.now() - decided,
    };
    let observing = clock.now();
    let batch = lanes.len();
    for (lane, found) in lanes.iter_mut().zip(&mut outcomes) {
        if let Ok((proposal, evaluated, outcome)) = found {
            (outcome.times, outcome.batch) = (times, batch);
            lane.generation.observe(lane.number(), proposal, evaluated, outcome);
        }
    }
    times.other += clock.now() - observing;
    Ok(lanes.iter_mut().zip(outcomes).map(|(lane, found)| lane.report(found?, times)).collect())
}

/// The draft of each lane.
fn propose(
    lanes: &mut [Lane<'_, '_>],
    clock: &dyn Clock,
) -> Result<Vec<Result<Proposal, Error>>, Error> {
    let alone = lanes.len() == 1;
    let desks = lanes.iter().map(|_| PassDesk::default()).collect::<Vec<_>>();
    let sequences = lanes.iter().map(|lane| lane.generation.past()).collect::<Vec<_>>();
    let drafting = lanes.iter_mut().zip(&desks).enumerate().map(|(own, (lane, desk))| {
        lane.generation.begin_draft(&BatchView { sequences: &sequences, own });
        lane.chance.begin_round(lane.number());
        // A pass that no other lane could share runs at once.
        let desk = (!alone).then_some(desk);
        (lane.generation.propose_at(desk, lane.chance, clock), None)
    });
    let mut drafting = drafting.collect::<Vec<_>>();
    loop {
        for (draft, made) in drafting.iter_mut().filter(|(_, made)| made.is_none()) {
            *made = draft.resume();
        }
        if drafting.iter().all(|(_, made)| made.is_some()) {
            return Ok(drafting.into_iter().filter_map(|(_, made)| made).collect());
        }
        make_passes(&desks, clock)?;
    }
}

/// Evaluates all drafts with one pass of the target.
fn evaluate(
    lanes: &mut [Lane<'_, '_>],
    proposals: &[Result<Proposal, Error>],
    target: &dyn LanguageModel,
    clock: &dyn Clock,
) -> Result<Vec<Evaluation>, Error> {
    let drafted = lanes.iter_mut().zip(proposals);
    let work = drafted.filter_map(|(lane, draft)| Some(lane.generation.work(draft.as_ref().ok()?)));
    let evaluations = target.evaluate(&mut work.collect::<Vec<_>>())?;
    clock.forward(Who::Target, evaluations.iter().map(|found| found.computed).sum());
    Ok(evaluations)
}

/// The verifier's decision on each draft.
fn verify(
    lanes: &mut [Lane<'_, '_>],
    proposals: Vec<Result<Proposal, Error>>,
    evaluations: Vec<Evaluation>,
) -> Vec<InRound<Verdict>> {
    let mut evaluations = evaluations.into_iter();
    let verdicts = lanes.iter_mut().zip(proposals).map(|(lane, proposal)| {
        let proposal = proposal?;
        let evaluation = evaluations.next();
        let evaluation = evaluation.ok_or_else(|| Error::engine("a pass lacks a sequence"))?;
        let evaluated = lane.generation.evaluated(&proposal, evaluation)?;
        let verdict = lane.generation.verify(&proposal, &evaluated, lane.chance);
        Ok((proposal, evaluated, verdict))
    });
    verdicts.collect()
}

/// Commits the tokens of each round.
fn apply(lanes: &mut [Lane<'_, '_>], verdicts: Vec<InRound<Verdict>>) -> Vec<InRound<Outcome>> {
    let outcomes = lanes.iter_mut().zip(verdicts).map(|(lane, found)| {
        let (proposal, evaluated, verdict) = found?;
        let outcome = lane.generation.apply(&proposal, verdict)?;
        Ok((proposal, evaluated, outcome))
    });
    outcomes.collect()
}

impl<'a> Lane<'_, 'a> {
    /// The same lane, for one round.
    fn again(&mut self) -> Lane<'_, 'a> {
        let Self { generation, chance, observer, totals } = self;
        Lane { generation, chance: &mut **chance, observer: &mut **observer, totals }
    }

    /// Ends the text stream and reports the last text.
    fn finish(&mut self) -> Result<(), Error> {
        self.generation.finish()?;
        self.observer.text(self.generation.take_text());
        Ok(())
    }

    /// The number of its round.
    fn number(&self) -> u64 {
        self.totals.target_forwards as u64
    }

    /// Reports a round with its times to the observer.
    fn report(
        &mut self,
        (proposal, evaluated, mut outcome): (Proposal, Evaluated, Outcome),
        times: RoundTimes,
    ) -> Result<(), Error> {
        outcome.times = times;
        let event = outcome.event(self.number(), self.generation.tokens(), &proposal, &evaluated);
        self.observer.round(&event)?;
        self.observer.text(self.generation.take_text());
        self.totals.target_forwards += 1;
        self.totals.draft_forwards += proposal.forwards;
        self.totals.draft_context_full += usize::from(proposal.full);
        self.totals.decode += times.total();
        self.totals.share += times.share(outcome.batch).total();
        Ok(())
    }
}
