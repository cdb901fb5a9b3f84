//! The steps of a search.

use std::ops::{ControlFlow, Range};
use std::time::Duration;

use super::ahead::{Passes, RowAhead, Wanted};
use super::group::{BeamGroup, Candidate, Hypothesis};
use super::scores::{Penalties, best};
use super::settings::BeamSettings;
use crate::chance::Chance;
use crate::clock::Clock;
use crate::decode::{Method, NO_DISTRIBUTION, StopReason, StopRules, TextStream, check_prompt};
use crate::distribution::Token;
use crate::error::Error;
use crate::model::{Codec, LanguageModel};

/// What to search after, and when a text ends.
#[derive(Debug)]
pub struct BeamSearch<'a> {
    /// Computes the distributions.
    pub target: &'a dyn LanguageModel,
    /// Width and scores.
    pub settings: BeamSettings,
    /// The tokens to continue.
    pub prompt: &'a [Token],
    /// When a text ends; `deadline` and `user` are not read.
    pub stop: StopRules<'a>,
    /// Turns tokens into text, for stop strings.
    pub codec: Option<&'a dyn Codec>,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundTexts {
    /// The best texts, best first; there may be none if the observer ended the search.
    pub texts: Vec<Hypothesis>,
    /// What they cost.
    pub totals: BeamTotals,
}

/// What a search cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BeamTotals {
    /// Tokens by which the beams became longer.
    pub steps: usize,
    /// Rows of logits that were needed: passes without a drafter.
    pub rows: usize,
    /// Passes of the target, one per beam, without prefill.
    pub target_forwards: usize,
    /// Passes of the drafter's model, without prefill.
    pub draft_forwards: usize,
    /// Time of the prefill.
    pub prefill: Duration,
    /// Time of all steps.
    pub decode: Duration,
}

/// The beams of a group.
#[derive(Debug)]
struct Beams<'a> {
    group: BeamGroup,
    live: Vec<LiveBeam<'a>>,
    /// Those for its beams.
    slots: Range<usize>,
}

impl<'a> BeamSearch<'a> {
    /// Searches, with the drafter and the draft length of `method`.
    ///
    /// # Errors
    /// If a setting is out of range, the prompt does not suit the target, a model fails, or
    /// logits do not define a distribution.
    pub fn run(
        &self,
        method: Method<'a>,
        (chance, clock): (&mut dyn Chance, &dyn Clock),
        observer: &mut dyn BeamObserver,
    ) -> Result<FoundTexts, Error> {
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
        let mut texts = finished.cloned().collect::<Vec<_>>();
        texts.sort_by(|a, b| b.score.total_cmp(&a.score));
        texts.truncate(self.settings.num_return_sequences);
        Ok(FoundTexts { texts, totals })
    }

    /// The text of found tokens, up to the stop string that ended it.
    ///
    /// # Errors
    /// If a token has no text.
    pub fn text(&self, tokens: &[Token], codec: &dyn Codec) -> Result<String, Error> {
        let mut text = TextStream::new(codec);
        tokens.iter().try_for_each(|&token| text.push(token))?;
        text.finish()?;
        let end = self.stop.find_string(text.text()).unwrap_or(text.text().len());
        Ok(text.text()[..end].to_owned())
    }

    /// The most tokens of a text, once all settings have been checked.
    fn most_tokens(&self) -> Result<usize, Error> {
        self.settings.validate()?;
        check_prompt(self.target.info(), self.prompt)?;
        let room = self.target.info().context_length - self.prompt.len();
        match self.stop.max_tokens.min(room) {
            0 => Err(Error::setting("max_tokens = 0: beam search needs at least 1")),
            most => Ok(most),
        }
    }

    /// Every group begins with one beam, the prompt.
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

    /// Computes the rows that are not there yet, in one call; returns how many were needed.
    fn compute(
        &self,
        passes: &mut Passes<'a>,
        groups: &mut [Beams<'a>],
        (chance, clock): (&mut dyn Chance, &dyn Clock),
    ) -> Result<usize, Error> {
        let mut live = groups.iter_mut().flat_map(|beams| &mut beams.live).collect::<Vec<_>>();
        // All groups begin with the same row.
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
            live.iter_mut().for_each(|beam| beam.row.clone_from(&first));
        }
        Ok(needed)
    }

    /// Ranks the continuations of a group's beams and decides which go on.
    fn decide(
        &self,
        beams: &mut Beams<'a>,
        length: usize,
        chosen: &Penalties,
    ) -> Result<Vec<Candidate>, Error> {
        let count = beams.group.ranked(self.stop.eos.len());
        let mut ranked = Vec::new();
        for (beam, live) in beams.live.iter().enumerate() {
            let Some(row) = &live.row else { continue };
            let best = best(row.logits(), count, chosen);
            let best = best.map_err(Error::distribution(NO_DISTRIBUTION))?;
            let longer =
                |(token, log_p)| Candidate { beam, token, log_prob: live.log_prob + log_p };
            ranked.extend(best.into_iter().map(longer));
        }
        // Stable: of equals, that of the better beam comes first, then that with the lower id.
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

    /// Whether a beam ends with a further token, its token number `length`, and why.
    fn ends(
        &self,
        beam: &LiveBeam<'a>,
        token: Token,
        length: usize,
    ) -> Result<Option<StopReason>, Error> {
        if self.stop.eos.contains(&token) {
            return Ok(Some(StopReason::Eos));
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
    /// The beams that go on, each with the slot of its parent, or with a copy of it if a better
    /// child has that.
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
/// A text that goes on.
#[derive(Debug, Clone)]
pub struct LiveBeam<'a> {
    /// The continuation so far.
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
    /// Its number, from 1: the tokens of every live beam.
    pub number: usize,
    /// The groups after it.
    pub groups: Vec<GroupStep<'s>>,
}

/// A group after a step.
#[derive(Debug, Clone, Copy)]
pub struct GroupStep<'s> {
    /// The beams that go on, best first.
    pub live: &'s [LiveBeam<'s>],
    /// The finished texts so far, best first.
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

/// Sees the steps of a search.
pub trait BeamObserver {
    /// Called after every step. A break ends the search with the texts that are finished.
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
