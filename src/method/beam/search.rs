//! Runs the steps of a search.

use std::ops::{ControlFlow, Range};
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::ahead::{Passes, RowAhead, Wanted};
use super::group::{BeamGroup, Candidate, Hypothesis};
use super::scores::{Penalties, best};
use super::settings::BeamSettings;
use crate::core::chance::Chance;
use crate::core::clock::Clock;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::method::decode::{
    Method, NO_DISTRIBUTION, StopReason, StopRules, TextStream, check_prompt,
};
use crate::model::{Codec, LanguageModel};

/// The inputs of a search.
#[derive(Debug)]
pub struct BeamSearch<'a> {
    /// Computes the distributions.
    pub target: &'a dyn LanguageModel,
    /// Width and scores.
    pub settings: BeamSettings,
    /// The tokens to continue.
    pub prompt: &'a [Token],
    /// When a completion ends; `deadline` and `user` are ignored.
    pub stop: StopRules<'a>,
    /// Turns tokens into text, for stop strings.
    pub codec: Option<&'a dyn Codec>,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct BeamResult {
    /// The best completions, best first; there may be none if the observer ended the search.
    pub hypotheses: Vec<Hypothesis>,
    /// The cost of the search.
    pub totals: BeamTotals,
}

/// The cost of a search; serialised with times in µs, named like the CSV columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct BeamTotals {
    /// Number of steps, each of which extends the beams by one token.
    pub steps: usize,
    /// Number of rows of logits used, which is the number of passes without a drafter.
    pub rows: usize,
    /// Passes of the target, one per beam, without prefill.
    pub target_forwards: usize,
    /// Passes of the drafter's model, without prefill.
    pub draft_forwards: usize,
    /// Time of the prefill.
    #[serde(rename = "prefill_us", serialize_with = "micros")]
    pub prefill: Duration,
    /// Time of all steps.
    #[serde(rename = "decode_us", serialize_with = "micros")]
    pub decode: Duration,
}

fn micros<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64() * 1e6)
}

#[derive(Debug)]
struct Beams<'a> {
    group: BeamGroup,
    live: Vec<LiveBeam<'a>>,
    /// The slots of its beams.
    slots: Range<usize>,
}

impl<'a> BeamSearch<'a> {
    /// Runs the search with the drafter and the draft length policy of `method`.
    ///
    /// # Errors
    /// If a setting is out of range, the prompt does not suit the target, a model fails, or
    /// logits do not define a distribution.
    pub fn run(
        &self,
        method: Method<'a>,
        (chance, clock): (&mut dyn Chance, &dyn Clock),
        observer: &mut dyn BeamObserver,
    ) -> Result<BeamResult, Error> {
        let most = self.most_tokens()?;
        let begun = clock.now();
        let place = (self.prompt, self.prompt.len() + most);
        let mut passes = Passes::new(self.target, method, place, self.settings.num_beams, clock)?;
        let mut totals = BeamTotals { prefill: clock.now() - begun, ..BeamTotals::default() };
        let mut groups = self.begin(most);
        while groups.iter().any(|beams| !beams.group.is_done()) {
            let begun = clock.now();
            totals.rows += self.compute(&mut passes, &mut groups, (chance, clock))?;
            totals.steps += 1;
            let mut chosen = Penalties::new();
            for beams in groups.iter_mut().filter(|beams| !beams.group.is_done()) {
                let next = self.decide(beams, totals.steps, &chosen)?;
                for candidate in &next {
                    *chosen.entry(candidate.token).or_default() += self.settings.diversity_penalty;
                }
                beams.advance(&next, &mut passes)?;
            }
            totals.decode += clock.now() - begun;
            if observer.step(&BeamStep::of(totals.steps, &groups)).is_break() {
                break;
            }
        }
        (totals.target_forwards, totals.draft_forwards) = passes.forwards();
        let finished = groups.iter().flat_map(|beams| beams.group.finished());
        let mut hypotheses = finished.cloned().collect::<Vec<_>>();
        hypotheses.sort_by(|a, b| b.score.total_cmp(&a.score));
        hypotheses.truncate(self.settings.num_return_sequences);
        Ok(BeamResult { hypotheses, totals })
    }

    /// The text of a completion, up to the stop string that ended it.
    ///
    /// # Errors
    /// If a token has no text.
    pub fn text(&self, tokens: &[Token], codec: &dyn Codec) -> Result<String, Error> {
        let mut text = TextStream::new(codec);
        for &token in tokens {
            text.push(token)?;
        }
        text.finish()?;
        let end = self.stop.find_string(text.text()).unwrap_or(text.text().len());
        Ok(text.text()[..end].to_owned())
    }

    /// Checks all settings and returns the maximum number of tokens of a completion.
    fn most_tokens(&self) -> Result<usize, Error> {
        self.settings.validate()?;
        check_prompt(self.target.info(), self.prompt)?;
        let room = self.target.info().context_length - self.prompt.len();
        match self.stop.max_tokens.min(room) {
            0 => Err(Error::setting("max_tokens = 0: beam search needs at least 1")),
            most => Ok(most),
        }
    }

    /// The initial groups, each with one empty beam.
    fn begin(&self, most: usize) -> Vec<Beams<'a>> {
        let width = self.settings.width();
        let looks_for = self.codec.filter(|_| !self.stop.strings.is_empty());
        let groups = 0..self.settings.num_beam_groups;
        let beams = groups.map(|number| Beams {
            group: BeamGroup::new(self.settings, most),
            live: vec![LiveBeam {
                tokens: Vec::new(),
                log_prob: 0.0,
                text: looks_for.map(TextStream::new),
                row: None,
                slot: number * width,
            }],
            slots: number * width..(number + 1) * width,
        });
        beams.collect()
    }

    /// Computes the missing rows in one call; returns the number of rows in use.
    fn compute(
        &self,
        passes: &mut Passes<'a>,
        groups: &mut [Beams<'a>],
        (chance, clock): (&mut dyn Chance, &dyn Clock),
    ) -> Result<usize, Error> {
        let mut live = groups.iter_mut().flat_map(|beams| &mut beams.live).collect::<Vec<_>>();
        // All groups start from the same row.
        let begins = live.first().is_some_and(|beam| beam.tokens.is_empty());
        let needed = if begins { 1 } else { live.len() };
        let missing = live.iter_mut().take(needed).filter(|beam| beam.row.is_none());
        let wanted = missing.map(|beam| Wanted {
            slot: beam.slot,
            context: [self.prompt, &beam.tokens].concat(),
            row: &mut beam.row,
        });
        passes.compute(&mut wanted.collect::<Vec<_>>(), chance, clock)?;
        if begins {
            let first = live[0].row.clone();
            for beam in &mut live {
                beam.row.clone_from(&first);
            }
        }
        Ok(needed)
    }

    /// Ranks the continuations of a group's beams and decides which continue.
    fn decide(
        &self,
        beams: &mut Beams<'a>,
        length: usize,
        chosen: &Penalties,
    ) -> Result<Vec<Candidate>, Error> {
        let count = beams.group.ranked(self.stop.ends().len());
        let mut ranked = Vec::new();
        for (beam, live) in beams.live.iter().enumerate() {
            let Some(row) = &live.row else { continue };
            let best = best(row.logits(), count, chosen);
            let best = best.map_err(Error::distribution(NO_DISTRIBUTION))?;
            let longer =
                |(token, log_p)| Candidate { beam, token, log_prob: live.log_prob + log_p };
            ranked.extend(best.into_iter().map(longer));
        }
        // The sort is stable: ties go to the better beam, then to the lower token id.
        ranked.sort_by(|a, b| b.log_prob.total_cmp(&a.log_prob));
        ranked.truncate(count);
        let mut judged = Vec::with_capacity(count);
        for candidate in ranked {
            let reason = self.ends(&beams.live[candidate.beam], candidate.token, length)?;
            judged.push((candidate, reason));
        }
        let live = &beams.live;
        let tokens = |c: &Candidate| [&*live[c.beam].tokens, &[c.token]].concat();
        Ok(beams.group.decide(&judged, length, &tokens))
    }

    /// The reason why a beam would end with this token as its token number `length`, if it would.
    fn ends(
        &self,
        beam: &LiveBeam<'a>,
        token: Token,
        length: usize,
    ) -> Result<Option<StopReason>, Error> {
        if let Some(reason) = self.stop.at(token) {
            return Ok(Some(reason));
        }
        if let Some(mut text) = beam.text.clone() {
            text.push(token)?;
            if self.stop.find_string(text.text()).is_some() {
                return Ok(Some(StopReason::StopString));
            }
        }
        let full = self.prompt.len() + length >= self.target.info().context_length;
        Ok(match length {
            _ if length >= self.stop.max_tokens => Some(StopReason::MaxTokens),
            _ => full.then_some(StopReason::ContextFull),
        })
    }
}

impl<'a> Beams<'a> {
    /// Replaces the live beams by the chosen candidates. Each takes its parent's slot, or a copy of
    /// it if a better child has taken that.
    fn advance(&mut self, next: &[Candidate], passes: &mut Passes<'a>) -> Result<(), Error> {
        if self.group.is_done() {
            self.live.clear();
            return Ok(());
        }
        let parents = next.iter().map(|c| self.live[c.beam].slot).collect::<Vec<_>>();
        let mut free = self.slots.clone().filter(|slot| !parents.contains(slot));
        let mut live = Vec::with_capacity(next.len());
        for (i, candidate) in next.iter().enumerate() {
            let parent = &self.live[candidate.beam];
            let taken = parents[..i].contains(&parent.slot);
            let other = if taken { free.next() } else { None };
            if let Some(slot) = other {
                passes.copy(parent.slot, slot)?;
            }
            live.push(parent.longer(candidate, other.unwrap_or(parent.slot))?);
        }
        self.live = live;
        Ok(())
    }
}

impl LiveBeam<'_> {
    fn longer(&self, candidate: &Candidate, slot: usize) -> Result<Self, Error> {
        let token = candidate.token;
        let mut text = self.text.clone();
        text.as_mut().map_or(Ok(()), |text| text.push(token))?;
        Ok(Self {
            tokens: [&*self.tokens, &[token]].concat(),
            log_prob: candidate.log_prob,
            text,
            row: self.row.as_ref().and_then(|row| row.after(token)),
            slot,
        })
    }
}
/// A beam that continues.
#[derive(Debug, Clone)]
pub struct LiveBeam<'a> {
    /// The completion so far.
    pub tokens: Vec<Token>,
    /// The sum of log p of its tokens, less diversity penalties.
    pub log_prob: f64,
    text: Option<TextStream<'a>>,
    row: Option<RowAhead>,
    slot: usize,
}

/// A finished step.
#[derive(Debug)]
pub struct BeamStep<'s> {
    /// Its number, from 1, which is also the length of every live beam.
    pub number: usize,
    /// The groups after it.
    pub groups: Vec<GroupStep<'s>>,
}

/// A group after a step.
#[derive(Debug, Clone, Copy)]
pub struct GroupStep<'s> {
    /// The live beams, best first.
    pub live: &'s [LiveBeam<'s>],
    /// The finished hypotheses so far, best first.
    pub finished: &'s [Hypothesis],
}

impl<'s> BeamStep<'s> {
    fn of(number: usize, groups: &'s [Beams<'_>]) -> Self {
        let group = |beams: &'s Beams<'_>| GroupStep {
            live: &beams.live,
            finished: beams.group.finished(),
        };
        Self { number, groups: groups.iter().map(group).collect() }
    }
}

/// Observes the steps of a search.
pub trait BeamObserver {
    /// Called after every step. A break ends the search with the hypotheses finished so far.
    fn step(&mut self, step: &BeamStep<'_>) -> ControlFlow<()>;
}

/// An observer that does nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoBeamObserver;

impl BeamObserver for NoBeamObserver {
    fn step(&mut self, _: &BeamStep<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}
