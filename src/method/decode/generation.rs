//! The state machine of one generation.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::time::Duration;

use super::checks::{check_estimates, check_prompt};
use super::steps::{Evaluated, Outcome, Proposal};
use super::stop::{StopReason, StopRules, room_for};
use super::text::TextStream;
use crate::core::chance::Chance;
use crate::core::clock::{Clock, Who};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::round::{RoundTimes, Verdict};
use crate::core::sampling::{History, Sampler};
use crate::core::tree::{Draft, Row};
use crate::method::draft::{Drafter, Drafting, PassDesk, Round};
use crate::method::length::{BatchView, DraftLength, SequencePast};
use crate::method::verify::Verifier;
use crate::model::{Codec, Evaluation, LanguageModel, Session, Want, Work, evaluate_one};

/// The error message for logits that are NaN or infinite begins with this.
pub(crate) const NO_DISTRIBUTION: &str = "the target's logits do not define a distribution";

/// How tokens are proposed, verified and sampled.
#[derive(Debug)]
pub struct Method<'a> {
    /// Proposes the drafts.
    pub drafter: Box<dyn Drafter<'a> + 'a>,
    /// Decides how far ahead to draft.
    pub length: Box<dyn DraftLength>,
    /// Decides which drafted tokens are kept.
    pub verifier: Rc<dyn Verifier>,
    /// Turns the target's logits into distributions.
    pub sampler: Sampler,
}

/// One sequence being generated. A round is `begin`, `propose`, the target's
/// pass over `work`, `evaluated`, `verify`, `commit`, `observe`.
#[derive(Debug)]
pub struct Generation<'a> {
    method: Method<'a>,
    /// Shared with the drafts of a round, since heads read hidden states of it.
    session: Rc<RefCell<Session>>,
    prompt_len: usize,
    context_length: usize,
    vocab: usize,
    tokens: Vec<Token>,
    stop: StopRules<'a>,
    /// All tokens that end the completion.
    ends: Vec<Token>,
    stopped: Option<StopReason>,
    text: Option<TextStream<'a>>,
    shown: usize,
}

impl<'a> Generation<'a> {
    /// A generation that continues `prompt`.
    ///
    /// # Errors
    /// If the prompt is empty, contains an unknown token or fills the context, or if
    /// the target cannot open a session.
    pub fn new(
        target: &dyn LanguageModel,
        mut method: Method<'a>,
        prompt: &[Token],
        stop: StopRules<'a>,
        codec: Option<&'a dyn Codec>,
    ) -> Result<Self, Error> {
        let info = target.info();
        check_prompt(info, prompt)?;
        check_estimates(&mut *method.drafter, &*method.length)?;
        let mut session = target.session()?;
        let tokens = room_for(prompt.len(), stop.max_tokens);
        session.expect(tokens)?;
        session.keep(method.drafter.taps(), info)?;
        method.drafter.expect(tokens)?;
        method.sampler = method.sampler.on(target.for_each_row());
        Ok(Self {
            method,
            session: Rc::new(RefCell::new(session)),
            prompt_len: prompt.len(),
            context_length: info.context_length,
            vocab: info.vocab,
            tokens: prompt.to_vec(),
            ends: stop.ends(),
            stop,
            stopped: None,
            text: codec.map(TextStream::new),
            shown: 0,
        })
    }

    /// Length of the prefix that its prompt, without the last token, shares with the computed
    /// tokens of another generation.
    fn common_with(&self, other: &Self) -> usize {
        let head = &self.tokens[..self.prompt_len - 1];
        other.session.borrow().holds(head)
    }

    /// Shares the cache rows of the generation of the same target that has the longest common
    /// prefix with this one. This generation must not have computed anything yet.
    ///
    /// # Errors
    /// If the engine fails to copy rows.
    pub fn share_with_one_of<'o>(
        &mut self,
        others: impl Iterator<Item = &'o mut Self>,
    ) -> Result<(), Error>
    where
        Self: 'o,
    {
        let others = others.map(|other| (self.common_with(other), other));
        if let Some((common @ 1.., other)) = others.max_by_key(|(common, _)| *common) {
            let mut session = other.session.borrow_mut().share(common)?;
            session.expect(room_for(self.prompt_len, self.stop.max_tokens))?;
            session.keep_as(&self.session.borrow());
            self.session = Rc::new(RefCell::new(session));
        }
        Ok(())
    }

    /// All tokens, the prompt first.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The completion.
    pub fn new_tokens(&self) -> &[Token] {
        &self.tokens[self.prompt_len..]
    }

    /// The completion as text, without the stop string that ended it.
    pub fn text(&self) -> &str {
        let text = self.text.as_ref().map_or("", |stream| stream.text());
        &text[..self.stop.find_string(text).unwrap_or(text.len())]
    }

    /// Why the generation ended, once it has.
    pub fn stopped(&self) -> Option<StopReason> {
        self.stopped
    }

    /// The method's verifier.
    pub fn verifier(&self) -> &dyn Verifier {
        &*self.method.verifier
    }

    /// Lets the target process the prompt without its last token, so that plain decoding takes N
    /// passes for N tokens, and then the drafter.
    ///
    /// # Errors
    /// If a model fails.
    pub fn prefill(&mut self, target: &dyn LanguageModel, clock: &dyn Clock) -> Result<(), Error> {
        let head = &self.tokens[..self.tokens.len() - 1];
        if !head.is_empty() {
            let session = &mut *self.session.borrow_mut();
            let draft = const { &Draft::empty(0) };
            let work = Work { session, context: head, draft, want: Want::Nothing };
            clock.forward(Who::Target, evaluate_one(target, work)?.computed);
        }
        let desk = PassDesk::new(&self.tokens, Some(Rc::clone(&self.session)));
        self.method.drafter.prefill(&desk, clock)
    }

    /// Checks the conditions that end a generation between rounds.
    pub fn begin(&mut self, decoded_for: Duration) -> Option<StopReason> {
        if self.stopped.is_none() {
            self.stopped = if self.new_tokens().len() >= self.stop.max_tokens {
                Some(StopReason::MaxTokens)
            } else if self.tokens.len() >= self.context_length {
                Some(StopReason::ContextFull)
            } else if self.stop.deadline.is_some_and(|deadline| decoded_for >= deadline) {
                Some(StopReason::Deadline)
            } else {
                None
            };
        }
        self.stopped
    }

    /// Lets the drafter propose a draft. Its depth is at most the number of tokens that
    /// may still be emitted, less the correction or bonus token of the round.
    ///
    /// # Errors
    /// If the drafter fails.
    pub fn propose(
        &mut self,
        chance: &mut dyn Chance,
        clock: &dyn Clock,
    ) -> Result<Proposal, Error> {
        let alone = [self.past()];
        self.begin_draft(&BatchView { sequences: &alone, own: 0 }, chance).at_once(clock)
    }

    /// The information for draft length policies before a round.
    pub(super) fn past(&self) -> SequencePast {
        let may_emit = self.stop.max_tokens - self.new_tokens().len();
        let room = may_emit.min(self.context_length - self.tokens.len()).saturating_sub(1);
        SequencePast { acceptance: self.method.length.past(), room }
    }

    /// Begins a draft, after its length policy has seen the sequences that share the round.
    pub(super) fn begin_draft<'f>(
        &'f mut self,
        batch: &BatchView<'_>,
        chance: &'f mut dyn Chance,
    ) -> Drafting<'f, 'a, Proposal> {
        let room = self.past().room;
        let Method { drafter, length, verifier, .. } = &mut self.method;
        length.begin(batch);
        let desk = PassDesk::new(&self.tokens, Some(Rc::clone(&self.session)));
        let (own, sizes) = (Rc::clone(&desk), (self.prompt_len, self.vocab));
        let (ends, coupling) = (&self.ends, verifier.coupling());
        let draft = Box::pin(async move {
            let round = Round::new(&own, sizes, &mut **length, chance);
            let limit = room.min(round.limit);
            let mut round = Round { ends, limit, coupling, ..round };
            let draft = drafter.propose(&mut round).await?;
            let full = round.full && draft.is_empty();
            Ok(Proposal { forwards: round.forwards, full, draft: draft.at(own.context().len()) })
        });
        Drafting::new(&desk, draft)
    }

    /// The target's sequence.
    pub fn session(&self) -> RefMut<'_, Session> {
        self.session.borrow_mut()
    }

    /// The work of the target in its sequence: every row of the draft.
    pub fn work<'w>(&'w self, session: &'w mut Session, proposal: &'w Proposal) -> Work<'w> {
        Work { session, context: &self.tokens, draft: &proposal.draft, want: Want::All }
    }

    /// Turns the target's rows into distributions.
    ///
    /// # Errors
    /// If a row of logits does not define a distribution.
    pub fn evaluated(
        &self,
        proposal: &Proposal,
        evaluation: Evaluation,
    ) -> Result<Evaluated, Error> {
        let draft = &proposal.draft;
        let drafted = Row::all(draft).map(|row| row.drafted(draft)).collect::<Vec<_>>();
        let history =
            |drafted| History { prompt_len: self.prompt_len, context: &self.tokens, drafted };
        let Evaluation { rows: logits, experts, .. } = evaluation;
        let positions = logits.iter().zip(&drafted).map(|(row, d)| (row, history(d)));
        let targets = self
            .method
            .sampler
            .distributions(&positions.collect::<Vec<_>>())
            .map_err(Error::distribution(NO_DISTRIBUTION))?;
        Ok(Evaluated { logits, targets, experts })
    }

    /// Lets the verifier decide.
    pub fn verify(
        &self,
        proposal: &Proposal,
        evaluated: &Evaluated,
        chance: &mut dyn Chance,
    ) -> Verdict {
        self.method.verifier.verify(&proposal.draft, &evaluated.targets, chance)
    }

    /// Commits the accepted tokens and the next one, up to the first stop; accepted tokens after it
    /// leave the verdict.
    ///
    /// # Errors
    /// If a token cannot be turned into text.
    pub fn commit(&mut self, proposal: &Proposal, mut verdict: Verdict) -> Result<Outcome, Error> {
        let before = self.tokens.len();
        let accepted = verdict.path.iter().map(|&id| proposal.draft.node(id).token);
        let round = accepted.chain([verdict.next]).collect::<Vec<_>>();
        for &token in &round {
            self.tokens.push(token);
            if let Some(text) = self.text.as_mut().filter(|_| self.stop.shows(token)) {
                text.push(token)?;
            }
            let text = self.text.as_ref().map_or("", |stream| stream.text());
            self.stopped = self.stop.after_token(&self.tokens[self.prompt_len..], text);
            if self.stopped.is_some() {
                break;
            }
        }
        let emitted = self.tokens.len() - before;
        let (accepted_raw, truncated) = (verdict.path.len(), emitted < round.len());
        verdict.path.truncate(emitted);
        let times = RoundTimes::default();
        Ok(Outcome { verdict, accepted_raw, before, truncated, times, batch: 1 })
    }

    /// Reports the round to the drafter and the length policy.
    pub fn observe(
        &mut self,
        round: u64,
        proposal: &Proposal,
        evaluated: &Evaluated,
        outcome: &Outcome,
    ) {
        let event = outcome.event(round, &self.tokens, proposal, evaluated);
        self.method.drafter.observe(&event);
        self.method.length.observe(&event);
    }

    /// The text that has become final since the last call.
    pub fn take_text(&mut self) -> &str {
        let text = self.text.as_ref().map_or("", |stream| stream.text());
        let end = match (self.stop.find_string(text), self.stopped) {
            (Some(at), _) => at,
            (None, Some(_)) => text.len(),
            (None, None) => self.stop.settled(text),
        };
        let from = self.shown;
        self.shown = end.max(from);
        text.get(from..end).unwrap_or_default()
    }

    /// Ends the text stream.
    ///
    /// # Errors
    /// If the last tokens cannot be turned into text.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.text.as_mut().map_or(Ok(()), TextStream::finish)
    }

    /// All state that further rounds depend on, as bytes, for merging equal states.
    ///
    /// # Errors
    /// If a session cannot be brought to the committed tokens.
    pub fn state_key(&mut self) -> Result<Vec<u8>, Error> {
        let mut session = self.session.borrow_mut();
        session.rewind(&self.tokens)?;
        let mut key = session.state_key();
        drop(session);
        for token in &self.tokens {
            key.extend(token.to_le_bytes());
        }
        key.extend(self.method.drafter.state_key(&self.tokens)?);
        key.extend(self.method.length.state_key());
        Ok(key)
    }

    /// An independent copy that continues in the same way. User stop conditions and the text are
    /// not copied.
    ///
    /// # Errors
    /// If a session cannot be copied.
    pub fn try_clone(&self) -> Result<Generation<'a>, Error> {
        Ok(Generation {
            method: Method {
                drafter: self.method.drafter.try_clone()?,
                length: self.method.length.clone(),
                verifier: Rc::clone(&self.method.verifier),
                sampler: self.method.sampler.clone(),
            },
            session: Rc::new(RefCell::new(self.session.borrow().try_clone()?)),
            prompt_len: self.prompt_len,
            context_length: self.context_length,
            vocab: self.vocab,
            tokens: self.tokens.clone(),
            ends: self.ends.clone(),
            stop: self.stop.without_user(),
            stopped: self.stopped,
            text: None,
            shown: 0,
        })
    }
}
