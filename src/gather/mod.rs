//! Gathers completions from servers of other programs: token ids in and out, several requests at a
//! time, with retries, at a limited rate, resumed after an interruption. Servers are also models
//! that report the distributions of tokens ([`ScoringServer`]).

mod api;
mod http;
mod keep;
mod llama_cpp;
mod openai;
mod rate;
mod scoring;
mod sglang;
mod timing;
mod vllm;

use std::iter::from_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, Builder};

use anyhow::{Context, Result, anyhow, bail};

use self::api::{CompletionRequest, ServerCompletion};
pub use self::api::{NamedServer, ServerApi};
use self::http::HttpServer;
use self::keep::KeptSequences;
use self::rate::RateGate;
pub use self::scoring::{ScoringServer, ScoringSettings};
pub use self::timing::{BenchedServer, ServerBench, ServerTimes};
use crate::core::sampling::SamplingParams;
use crate::io::terminal::Progress;
use crate::tapes::recording::{SequenceLine, TapePrompt};

/// The protocols of servers: each is one file and one line here.
pub const SERVER_APIS: [ServerApi; 4] = [vllm::API, sglang::API, llama_cpp::API, openai::API];

/// The completions to gather from a server.
#[derive(Debug)]
pub struct Gathering<'a> {
    /// The server.
    pub server: NamedServer<'a>,
    /// The prompts.
    pub prompts: &'a [TapePrompt],
    /// How completions are sampled.
    pub sampling: SamplingParams,
    /// Completions per prompt, with consecutive seeds.
    pub repeats: u64,
    /// The first seed.
    pub seed: u64,
    /// Maximum number of tokens of a completion.
    pub max_tokens: usize,
    /// Number of tokens of the target's vocabulary.
    pub vocab: usize,
}

impl Gathering<'_> {
    /// Requests all completions that the file does not have yet, and appends them to it.
    ///
    /// # Errors
    /// If the server refuses a request or does not answer, or the file cannot be written or has
    /// other sampling settings. Completions received before the error stay in the file.
    pub fn run(&self, file: &std::path::Path) -> Result<()> {
        let mut kept = KeptSequences::open(file, self.sampling.clone())?;
        let server = self.server.open()?;
        let seeds = (0..self.repeats).map(|repeat| self.seed + repeat);
        let all = seeds.flat_map(|seed| {
            self.prompts.iter().map(move |prompt| {
                let (sampling, max_tokens) = (self.sampling.clone(), self.max_tokens);
                CompletionRequest { prompt, sampling, seed, max_tokens }
            })
        });
        let total = self.repeats as usize * self.prompts.len();
        let missing =
            all.filter(|asked| !kept.has(&asked.prompt.id, asked.seed)).collect::<Vec<_>>();
        let mut progress = Progress::new("completions", total, total - missing.len());
        let gate = RateGate::new(self.server.rate);
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let ask = || {
            let asked = missing.get(next.fetch_add(1, Ordering::Relaxed))?;
            gate.wait();
            let answer = self.ask(&server, asked);
            failed.fetch_or(answer.is_err(), Ordering::Relaxed);
            Some(answer)
        };
        let (sender, answers) = channel::<Result<SequenceLine>>();
        thread::scope(|scope| {
            for _ in 0..self.server.concurrency.min(missing.len()) {
                let (sender, failed) = (sender.clone(), &failed);
                let all = move || {
                    while !failed.load(Ordering::Relaxed)
                        && ask().is_some_and(|answer| sender.send(answer).is_ok())
                    {
                    }
                };
                if Builder::new().spawn_scoped(scope, all).is_err() {
                    break;
                }
            }
            drop(sender);
            // If the system started no thread, this one asks for what is missing.
            for answer in answers.into_iter().chain(from_fn(ask)) {
                let line = answer.inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
                kept.append(&line).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
                progress
                    .advance(&crate::io::shown::line(line.prompt.as_deref().unwrap_or_default()));
            }
            Ok(())
        })
    }

    fn ask(&self, server: &HttpServer, asked: &CompletionRequest<'_>) -> Result<SequenceLine> {
        let NamedServer { url, api, .. } = self.server;
        let place = || format!("{url}{}, prompt {}", api.path, asked.prompt.id);
        let body = (api.request)(server, asked);
        let answered = server.ask(api.path, &body, api.answer).with_context(place)?;
        self.checked(asked, answered).with_context(place)
    }

    /// A completion as a line of the file, which must be able to be read again: a wrong line would
    /// spoil it for all audits.
    fn checked(
        &self,
        asked: &CompletionRequest<'_>,
        answered: ServerCompletion,
    ) -> Result<SequenceLine> {
        let ServerCompletion { prompt, tokens, end, accepted, drafted } = answered;
        let prompt_ids = asked.prompt.tokens.clone();
        if prompt.is_some_and(|prompt| prompt != prompt_ids) {
            bail!("it reports another prompt than the requested one");
        }
        if tokens.len() > asked.max_tokens {
            bail!(
                "it reports {} tokens, more than the {} requested",
                tokens.len(),
                asked.max_tokens
            );
        }
        if let Some(token) = tokens.iter().find(|&&token| token as usize >= self.vocab) {
            bail!("it reports token {token}, outside the vocabulary of {} tokens", self.vocab);
        }
        let line = SequenceLine {
            prompt: Some(asked.prompt.id.clone()),
            prompt_ids,
            output_ids: tokens,
            sampling: asked.sampling.clone(),
            seed: Some(asked.seed),
            finish: end,
            accepted,
            drafted,
            ..SequenceLine::default()
        };
        line.check().map_err(|why| anyhow!("its answer cannot be kept: {why}"))?;
        Ok(line)
    }
}
