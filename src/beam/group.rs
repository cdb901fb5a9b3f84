//! The decisions of a group of beams: which texts go on, which are finished, and when to end.
//!
//! A single group ends and finishes as `_beam_search` of `transformers` does, several groups
//! as its group beam search. The two differ at the last step and in what they compare with
//! the worst finished text.

use super::settings::{BeamSettings, EarlyStopping};
use crate::decode::StopReason;
use crate::distribution::Token;

/// A finished text.
#[derive(Debug, Clone, PartialEq)]
pub struct Hypothesis {
    /// The continuation, with the token that ended it.
    pub tokens: Vec<Token>,
    /// The sum of log p of its tokens, less diversity penalties.
    pub log_prob: f64,
    /// The sum divided by the length to the power of `length_penalty`.
    pub score: f64,
    /// Why it ended.
    pub reason: StopReason,
}

/// A continuation of a beam by one token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    /// The beam, by its place among the live ones of its group.
    pub(super) beam: usize,
    pub(super) token: Token,
    /// The sum of log p with this token.
    pub(super) log_prob: f64,
}

/// The finished texts of a group, and whether it goes on.
#[derive(Debug, Clone)]
pub(super) struct BeamGroup {
    settings: BeamSettings,
    /// The most tokens of a text.
    most: usize,
    /// At most as many as beams, best first; of equals the earlier one first.
    finished: Vec<Hypothesis>,
    done: bool,
}

impl BeamGroup {
    pub(super) fn new(settings: BeamSettings, most: usize) -> Self {
        Self { settings, most, finished: Vec::new(), done: false }
    }

    /// How many candidates a step ranks: enough that as many as beams do not end, although
    /// each beam may offer every end token.
    pub(super) fn ranked(&self, end_tokens: usize) -> usize {
        (1 + end_tokens).max(2) * self.settings.width()
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// The finished texts, best first.
    pub(super) fn finished(&self) -> &[Hypothesis] {
        &self.finished
    }

    /// Decides a step: takes the ranked candidates, of which each has `length` tokens and says
    /// whether it ends, and returns those that go on, best first, or would if the group were
    /// not done.
    pub(super) fn decide(
        &mut self,
        ranked: &[(Candidate, Option<StopReason>)],
        length: usize,
        tokens: &dyn Fn(&Candidate) -> Vec<Token>,
    ) -> Vec<Candidate> {
        let width = self.settings.width();
        let grouped = self.settings.num_beam_groups > 1;
        let last = length >= self.most;
        let mut live = Vec::new();
        for (rank, (candidate, reason)) in ranked.iter().enumerate() {
            // With several groups, the length ends what goes on after this loop.
            let ends = reason.filter(|reason| !(grouped && is_length(*reason)));
            match ends {
                Some(reason) if rank < width => self.finish(candidate, length, reason, tokens),
                Some(_) => {}
                None if live.len() < width => live.push((candidate, *reason)),
                None => {}
            }
        }
        let best = if grouped { ranked.first().map(|(c, _)| c) } else { live.first().map(|l| l.0) };
        self.done = best.is_none_or(|best| self.ends(best.log_prob, length));
        if !self.done {
            // What is live although it ends is at its greatest length.
            for (candidate, reason) in &live {
                reason.iter().for_each(|r| self.finish(candidate, length, *r, tokens));
            }
        }
        self.done |= last;
        live.into_iter().map(|(candidate, _)| *candidate).collect()
    }

    /// Whether the finished texts are final, if `best` is the largest sum of log p that a text
    /// of `length` tokens has.
    fn ends(&self, best: f64, length: usize) -> bool {
        let Some(worst) = self.finished.get(self.settings.width() - 1) else { return false };
        let attainable = match self.settings.ends() {
            EarlyStopping::True => return true,
            EarlyStopping::Never if self.settings.length_penalty > 0.0 => {
                self.settings.score(best, self.most)
            }
            EarlyStopping::Never | EarlyStopping::False => self.settings.score(best, length),
        };
        attainable <= worst.score
    }

    fn finish(
        &mut self,
        candidate: &Candidate,
        length: usize,
        reason: StopReason,
        tokens: &dyn Fn(&Candidate) -> Vec<Token>,
    ) {
        let score = self.settings.score(candidate.log_prob, length);
        let at = self.finished.partition_point(|other| other.score >= score);
        if at < self.settings.width() {
            let log_prob = candidate.log_prob;
            let hypothesis = Hypothesis { tokens: tokens(candidate), log_prob, score, reason };
            self.finished.insert(at, hypothesis);
            self.finished.truncate(self.settings.width());
        }
    }
}

/// Whether a text ended only because it may not be longer.
fn is_length(reason: StopReason) -> bool {
    matches!(reason, StopReason::MaxTokens | StopReason::ContextFull)
}
