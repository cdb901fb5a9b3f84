//! A text that is being generated.

use std::time::Instant;

use super::LogprobsMode;
use super::api_error::ApiError;
use super::engine::ServingEngine;
use super::job::{
    BegunText, EndedText, RoundText, SentPrompt, TextEvent, TextJob, TextOptions, TokenLogprobs,
};
use super::meters::Meters;
use super::speculation::Speculation;
use super::token_text::{LawRow, TokenTexts};
use crate::chance::{Request, Seeded};
use crate::clock::RealClock;
use crate::decode::{Generation, Lane, Observer, StopRules, Totals, one_round_together, prefill};
use crate::distribution::Token;
use crate::error::Error;
use crate::model::Conversation;
use crate::round::RoundEvent;
use crate::tape::prompt_rows;
use crate::tree::Row;

/// A text, its random numbers, and whom to tell of it.
#[derive(Debug)]
pub(super) struct RunningText<'m> {
    job: TextJob,
    generation: Generation<'m>,
    chance: Seeded,
    totals: Totals,
    listener: PartListener<'m>,
    meters: &'m Meters,
}

impl<'m> RunningText<'m> {
    /// Begins a text beside others; none if its client has gone, or is told why it cannot be made.
    pub(super) fn begin(
        job: TextJob,
        engine: &'m ServingEngine<'_>,
        others: &mut [Self],
    ) -> Option<Self> {
        if job.events.is_closed() {
            return None;
        }
        let index = job.index;
        let events = job.events.clone();
        match Self::begun(job, engine, others) {
            Ok(text) => Some(text),
            Err(error) => {
                // A client that has gone misses nothing.
                let _ = events.send((index, TextEvent::Failed(error)));
                None
            }
        }
    }

    fn begun(
        job: TextJob,
        engine: &'m ServingEngine<'_>,
        others: &mut [Self],
    ) -> Result<Self, ApiError> {
        if Instant::now() >= job.deadline {
            return Err(ApiError::late());
        }
        let tokens = engine.tokens(&job.prompt)?;
        let TextOptions { sampling, seed, .. } = job.wanted;
        let method = engine.method(sampling)?;
        let rules = engine.rules(&job.wanted, tokens.len());
        let target = engine.target();
        let mut generation = Generation::new(target, method, &tokens, rules, Some(engine.codec()))?;
        // What another text has read of a prompt that begins in the same way is not read again.
        generation.share_with_one_of(others.iter_mut().map(|other| &mut other.generation))?;
        let logprobs = job.wanted.prompt_logprobs;
        let logprobs = logprobs.map(|most| prompt_logprobs(engine, &tokens, most)).transpose();
        let totals = prefill(&mut generation, target, &RealClock::default())?;
        let key = engine.request_key(&job.prompt, &tokens);
        let begun = BegunText {
            text: engine.codec().decode(&tokens)?,
            prompt: tokens,
            logprobs: logprobs?,
        };
        engine.meters.begun(begun.prompt.len());
        let _ = job.events.send((job.index, TextEvent::Begun(begun)));
        Ok(Self {
            generation,
            totals,
            chance: Seeded::new(Request { seed, prompt: &key, repeat: job.repeat }),
            listener: PartListener {
                texts: &engine.texts,
                most: job.wanted.logprobs,
                mode: engine.settings.logprobs,
                part: RoundText::default(),
                speculation: Speculation::new(engine.spec.num_speculative_tokens),
            },
            meters: &engine.meters,
            job,
        })
    }

    /// Gives all texts a round, in passes that they share.
    ///
    /// # Errors
    /// If a model fails in such a pass.
    pub(super) fn round(
        texts: &mut [Self],
        engine: &ServingEngine<'_>,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let parts = texts.iter_mut().map(|text| {
            let Self { generation, chance, totals, listener, .. } = text;
            (generation, engine.chance(chance), totals, listener)
        });
        let mut parts = parts.collect::<Vec<_>>();
        let lanes = parts.iter_mut().map(|(generation, chance, totals, observer)| Lane {
            generation,
            chance: &mut **chance,
            observer: *observer,
            totals,
        });
        one_round_together(&mut lanes.collect::<Vec<_>>(), engine.target(), &RealClock::default())
    }

    /// Whether the text has another round; if not, its client is told of its end.
    pub(super) fn goes_on(&mut self) -> bool {
        match self.end() {
            Ok(None) => true,
            Ok(Some(end)) => self.close(TextEvent::Ended(end)),
            Err(error) => self.close(TextEvent::Failed(error)),
        }
    }

    /// Tells of a round; whether the text goes on.
    pub(super) fn tell(&mut self, round: Result<(), ApiError>) -> bool {
        match round {
            Err(error) => self.close(TextEvent::Failed(error)),
            Ok(()) => {
                let part = std::mem::take(&mut self.listener.part);
                let listens = self.send(TextEvent::Part(part));
                if !listens {
                    self.count();
                }
                listens
            }
        }
    }

    /// The text does not go on.
    fn close(&mut self, event: TextEvent) -> bool {
        // Who has a text finds it among the meters.
        self.count();
        self.send(event);
        false
    }

    fn count(&self) {
        let tokens = self.generation.new_tokens().len();
        self.meters.ended(tokens, &self.listener.speculation);
    }

    /// The end of the text, if it is there.
    fn end(&mut self) -> Result<Option<EndedText>, ApiError> {
        if Instant::now() >= self.job.deadline {
            return Err(ApiError::late());
        }
        let Some(reason) = self.generation.begin(self.totals.decode) else { return Ok(None) };
        self.generation.finish()?;
        self.listener.text(self.generation.take_text());
        let rest = std::mem::take(&mut self.listener.part);
        if !rest.text.is_empty() {
            self.send(TextEvent::Part(rest));
        }
        let speculation = self.listener.speculation.clone();
        Ok(Some(EndedText { reason, speculation }))
    }

    /// Whether the client still listens.
    fn send(&self, event: TextEvent) -> bool {
        self.job.events.send((self.job.index, event)).is_ok()
    }
}

impl ServingEngine<'_> {
    /// The tokens of a prompt.
    fn tokens(&self, prompt: &SentPrompt) -> Result<Vec<Token>, Error> {
        match prompt {
            SentPrompt::Text(text) => self.codec().encode(text),
            SentPrompt::Tokens(tokens) => Ok(tokens.clone()),
            SentPrompt::Chat(messages) => {
                let conversation = Conversation { messages: messages.clone(), today: None };
                // No template, or one that refuses these roles, is the client's to mend; where
                // the model's files lie is not the client's business.
                self.codec().encode_chat(&conversation).map_err(|error| match error {
                    Error::File { why, .. } => Error::Input(why),
                    error => error,
                })
            }
        }
    }

    /// What random numbers are addressed by: a text has those that `specdec generate` gives it.
    fn request_key(&self, prompt: &SentPrompt, tokens: &[Token]) -> String {
        match prompt {
            SentPrompt::Text(text) => text.clone(),
            SentPrompt::Tokens(_) | SentPrompt::Chat(_) => {
                let ids = tokens.iter().map(Token::to_string).collect::<Vec<_>>();
                format!("tokens {}", ids.join(" "))
            }
        }
    }

    fn rules(&self, wanted: &TextOptions, prompt: usize) -> StopRules<'static> {
        let info = self.target().info();
        let room = info.context_length.saturating_sub(prompt);
        let most = self.settings.limits.tokens.unwrap_or(usize::MAX).min(room);
        StopRules {
            max_tokens: wanted.max_tokens.unwrap_or(most),
            eos: if wanted.ignore_eos { Vec::new() } else { info.eos.clone() },
            strings: wanted.stop.clone(),
            deadline: None,
            user: None,
        }
    }
}

/// The log-probabilities of a prompt's tokens but the first.
fn prompt_logprobs(
    engine: &ServingEngine<'_>,
    prompt: &[Token],
    most: usize,
) -> Result<Vec<TokenLogprobs>, Error> {
    let mut found = Vec::with_capacity(prompt.len());
    prompt_rows(engine.target(), prompt, |token, logits| {
        found.push(engine.texts.logprobs(&LawRow::raw(logits)?, token, most));
        Ok(())
    })?;
    Ok(found)
}

/// Gathers what a round gives.
#[derive(Debug)]
struct PartListener<'m> {
    texts: &'m TokenTexts,
    most: Option<usize>,
    mode: LogprobsMode,
    part: RoundText,
    speculation: Speculation,
}

impl Observer for PartListener<'_> {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        self.speculation.add(event);
        self.part.tokens.extend_from_slice(event.emitted);
        let Some(most) = self.most else { return Ok(()) };
        let path = event.verdict.path.iter().map(|&id| Some(id));
        let rows = [None].into_iter().chain(path).map(|at| Row::after(at).number());
        for (row, &token) in rows.zip(event.emitted) {
            let law = match self.mode {
                LogprobsMode::Raw => LawRow::raw(&event.logits[row])?,
                LogprobsMode::Processed => LawRow::Processed(&event.targets[row]),
            };
            self.part.logprobs.push(self.texts.logprobs(&law, token, most));
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.part.text.push_str(text);
    }
}
