//! A completion that is being generated.

use std::time::Instant;

use super::LogprobsMode;
use super::api_error::ApiError;
use super::engine::ServingEngine;
use super::job::{
    CompletionEnd, CompletionJob, CompletionOptions, CompletionPart, PartialCompletion,
    PrefilledPrompt, TokenLogprobs,
};
use super::latencies::{CompletionTimes, arrival};
use super::logprobs::{LogprobRow, TokenSpellings};
use super::meters::Meters;
use super::speculation::Speculation;
use crate::core::chance::{Request, Seeded};
use crate::core::clock::RealClock;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::round::RoundEvent;
use crate::core::tree::Row;
use crate::method::decode::{
    Generation, Observer, Sequence, StopReason, StopRules, Totals, check_prompt,
    one_round_together, prefill,
};
use crate::model::ModelInfo;
use crate::tapes::tape::prompt_rows;

/// A completion with its random numbers and the connection that it is for.
#[derive(Debug)]
pub(super) struct RunningCompletion<'m> {
    job: CompletionJob,
    generation: Generation<'m>,
    chance: Seeded,
    totals: Totals,
    observer: RoundObserver<'m>,
    times: CompletionTimes,
    meters: &'m Meters,
}

impl<'m> RunningCompletion<'m> {
    /// Begins a completion; none if its client has gone or, after an error was sent, if it has
    /// failed. It shares what `others` have read of its prompt.
    pub(super) fn begin(
        job: CompletionJob,
        engine: &'m ServingEngine<'_>,
        others: &mut [Self],
    ) -> Option<Self> {
        if job.events.is_closed() {
            return None;
        }
        let index = job.index;
        let events = job.events.clone();
        match Self::prefilled(job, engine, others) {
            Ok(completion) => Some(completion),
            Err(error) => {
                // A client that has gone misses nothing.
                let _ = events.send((index, Err(error)));
                None
            }
        }
    }

    fn prefilled(
        job: CompletionJob,
        engine: &'m ServingEngine<'_>,
        others: &mut [Self],
    ) -> Result<Self, ApiError> {
        if Instant::now() >= job.deadline {
            return Err(ApiError::late());
        }
        let arrived = arrival(job.deadline, engine.settings.limits.time);
        let times = CompletionTimes::begin(arrived, &engine.meters.latencies);
        let tokens = job.prompt.tokens.clone();
        check_prompt(&engine.info, &tokens)?;
        let CompletionOptions { ref sampling, seed, .. } = job.options;
        let method = engine.method(sampling.clone())?;
        let rules = engine.rules(&job.options, tokens.len())?;
        let target = engine.target();
        let mut generation = Generation::new(target, method, &tokens, rules, Some(engine.codec()))?;
        // A beginning of the prompt that another completion has read is not read again.
        generation.share_with_one_of(others.iter_mut().map(|other| &mut other.generation))?;
        let logprobs = job.options.prompt_logprobs;
        let logprobs = logprobs.map(|most| prompt_logprobs(engine, &tokens, most)).transpose();
        let totals = prefill(&mut generation, target, &RealClock::default())?;
        let prompt = PrefilledPrompt {
            text: engine.codec().decode(&tokens)?,
            first: engine.spellings.named(tokens[0], f64::NAN),
            tokens,
            logprobs: logprobs?,
        };
        engine.meters.prefilled(prompt.tokens.len());
        let read = PartialCompletion { prompt: Some(prompt), ..PartialCompletion::default() };
        let _ = job.events.send((job.index, Ok(read)));
        Ok(Self {
            generation,
            totals,
            chance: Seeded::new(Request { seed, prompt: &job.prompt.key, repeat: job.repeat }),
            observer: RoundObserver {
                spellings: &engine.spellings,
                most: job.options.logprobs,
                mode: engine.settings.logprobs,
                part: CompletionPart::default(),
                speculation: Speculation::new(engine.served.spec.num_speculative_tokens),
            },
            times,
            meters: &engine.meters,
            job,
        })
    }

    /// Gives all completions a round, in passes that they share; returns which of them failed.
    pub(super) fn round(
        completions: &mut [Self],
        engine: &ServingEngine<'_>,
    ) -> Vec<Result<(), Error>> {
        let (mut chances, mut others) = (Vec::new(), Vec::new());
        for Self { generation, chance, totals, observer, .. } in completions {
            chances.push(engine.chance(chance));
            others.push((generation, observer, totals));
        }
        let mut sequences = Vec::with_capacity(others.len());
        for (chance, (generation, observer, totals)) in chances.iter_mut().zip(others) {
            sequences.push(Sequence::new(generation, &mut **chance, observer, totals));
        }
        one_round_together(&mut sequences, engine.target(), &RealClock::default());
        sequences.into_iter().map(|sequence| sequence.end.unwrap_or(Ok(()))).collect()
    }

    /// Whether the completion has another round; if not, its end is sent.
    pub(super) fn continues(&mut self) -> bool {
        self.end().transpose().is_none_or(|end| self.close(end))
    }

    /// Sends what a round gave; whether the completion continues.
    pub(super) fn report(&mut self, round: Result<(), Error>) -> bool {
        match round {
            Err(error) => self.close(Err(error.into())),
            Ok(()) => {
                let part = std::mem::take(&mut self.observer.part);
                self.times.round(part.tokens.len(), &self.meters.latencies);
                let connected = self.send_part(part);
                if !connected {
                    self.count(None);
                }
                connected
            }
        }
    }

    /// Ends the completion; false, since it does not continue.
    fn close(&mut self, end: Result<CompletionEnd, ApiError>) -> bool {
        // A client that has its completion finds it in the meters.
        self.count(end.as_ref().ok().map(|end| end.reason));
        self.send(end.map(|end| PartialCompletion { end: Some(end), ..Default::default() }));
        false
    }

    fn count(&self, reason: Option<StopReason>) {
        let tokens = self.generation.new_tokens().len();
        self.meters.ended(tokens, reason, &self.observer.speculation);
        self.times.end(&self.meters.latencies);
        self.meters.without_room(self.totals.draft_context_full);
    }

    /// The end of the completion, if it has ended.
    fn end(&mut self) -> Result<Option<CompletionEnd>, ApiError> {
        if Instant::now() >= self.job.deadline {
            return Err(ApiError::late());
        }
        let Some(reason) = self.generation.begin(self.totals.decode) else { return Ok(None) };
        self.generation.finish()?;
        self.observer.text(self.generation.take_text());
        let rest = std::mem::take(&mut self.observer.part);
        if !rest.text.is_empty() {
            self.send_part(rest);
        }
        let speculation = self.observer.speculation.clone();
        Ok(Some(CompletionEnd { reason, speculation }))
    }

    fn send_part(&self, part: CompletionPart) -> bool {
        self.send(Ok(PartialCompletion { part, ..PartialCompletion::default() }))
    }

    /// Whether the client is still connected.
    fn send(&self, new: Result<PartialCompletion, ApiError>) -> bool {
        self.job.events.send((self.job.index, new)).is_ok()
    }
}

impl ServingEngine<'_> {
    /// When a completion ends. One that may become longer than the context is refused, as in
    /// vLLM, instead of cut.
    fn rules(
        &self,
        options: &CompletionOptions,
        prompt: usize,
    ) -> Result<StopRules<'static>, ApiError> {
        let ModelInfo { name, context_length, eos, .. } = &self.info;
        let room = context_length.saturating_sub(prompt);
        if let Some(tokens) = options.max_tokens.filter(|tokens| *tokens > room) {
            return Err(ApiError::bad(format!(
                "\"max_tokens\" is {tokens}: allowed are up to {room}, because {name} has room for \
                 {context_length} and the prompt has {prompt}"
            )));
        }
        let max_tokens = options.max_tokens.unwrap_or(options.default_tokens.min(room));
        if options.controls.min_tokens > max_tokens {
            let min_tokens = options.controls.min_tokens;
            return Err(ApiError::bad(format!(
                "\"min_tokens\" is {min_tokens}: more than \"max_tokens\", which is {max_tokens}"
            )));
        }
        Ok(StopRules {
            max_tokens,
            eos: if options.ignore_eos { Vec::new() } else { eos.clone() },
            tokens: options.controls.stop_token_ids.clone(),
            strings: options.stop.clone(),
            keeps_stop: options.keeps_stop,
            deadline: None,
            user: None,
        })
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
        found.push(engine.spellings.logprobs(&LogprobRow::raw(logits)?, token, most));
        Ok(())
    })?;
    Ok(found)
}

/// Gathers what a round gives.
#[derive(Debug)]
struct RoundObserver<'m> {
    spellings: &'m TokenSpellings,
    most: Option<usize>,
    mode: LogprobsMode,
    part: CompletionPart,
    speculation: Speculation,
}

impl Observer for RoundObserver<'_> {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        self.speculation.add(event);
        self.part.tokens.extend_from_slice(event.emitted);
        let Some(most) = self.most else { return Ok(()) };
        let path = event.verdict.path.iter().map(|&id| Some(id));
        let rows = [None].into_iter().chain(path).map(|at| Row::after(at).number());
        for (at, &token) in rows.zip(event.emitted) {
            let row = match self.mode {
                LogprobsMode::Raw => LogprobRow::raw(&event.logits[at])?,
                LogprobsMode::Processed => LogprobRow::Processed(&event.targets[at]),
            };
            self.part.logprobs.push(self.spellings.logprobs(&row, token, most));
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.part.text.push_str(text);
    }
}
