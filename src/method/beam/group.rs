//! The decisions of a group of beams: which beams continue, which are finished, and when to stop.
//!
//! A single group behaves like `_beam_search` of `transformers`, several groups like its group beam
//! search. The two differ at the last step and in the value that they compare with the worst
//! finished hypothesis.

use super::settings::{BeamSettings, EarlyStopping};
use crate::core::distribution::Token;
use crate::method::decode::StopReason;

/// A finished completion.
#[derive(Debug, Clone, PartialEq)]
pub struct Hypothesis {
    /// The completion, with the token that ended it.
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
    /// The beam's index among the live beams of its group.
    pub(super) beam: usize,
    pub(super) token: Token,
    /// The sum of log p including this token.
    pub(super) log_prob: f64,
}

/// The finished hypotheses of a group, and whether it is done.
#[derive(Debug, Clone)]
pub(super) struct BeamGroup {
    settings: BeamSettings,
    /// The maximum number of tokens of a completion.
    most: usize,
    /// At most as many as beams, best first; among equals, the earlier one first.
    finished: Vec<Hypothesis>,
    done: bool,
}

impl BeamGroup {
    pub(super) fn new(settings: BeamSettings, most: usize) -> Self {
        Self { settings, most, finished: Vec::new(), done: false }
    }

    /// The number of candidates that a step ranks. Even if each beam offers every end token, enough
    /// candidates remain to continue every beam.
    pub(super) fn ranked(&self, end_tokens: usize) -> usize {
        (1 + end_tokens).max(2) * self.settings.width()
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// The finished hypotheses, best first.
    pub(super) fn finished(&self) -> &[Hypothesis] {
        &self.finished
    }

    /// Decides a step. Takes the ranked candidates of `length` tokens, each with the reason if it
    /// ends there. Returns the candidates that continue, best first, even if the group is done.
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
            // With several groups, candidates that end by length are finished after this loop.
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
            // Live candidates with a reason to end have reached the maximum length.
            for (candidate, reason) in &live {
                if let Some(r) = reason {
                    self.finish(candidate, length, *r, tokens);
                }
            }
        }
        self.done |= last;
        live.into_iter().map(|(candidate, _)| *candidate).collect()
    }

    /// Whether the finished hypotheses are final, if `best` is the largest sum of log p of a live
    /// candidate of `length` tokens.
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

/// Whether a completion ended only because of its length.
fn is_length(reason: StopReason) -> bool {
    matches!(reason, StopReason::MaxTokens | StopReason::ContextFull)
}
