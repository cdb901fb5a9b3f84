//! Texts from servers of other programs: token ids in and out, several requests at a time, with
//! retries, at a rate that the server bears, and resumed where an earlier command ended; and
//! servers as models that tell the laws of texts.

mod api;
mod http;
mod keep;
mod llama_cpp;
mod openai;
mod rate;
mod scoring;
mod sglang;
mod vllm;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use anyhow::{Context, Result, anyhow};

use self::api::AskedText;
pub use self::api::{NamedServer, ServerApi};
use self::http::HttpServer;
use self::keep::KeptTexts;
use self::rate::RateGate;
pub use self::scoring::{ScoredBy, ScoringServer};
use crate::recording::{TapePrompt, TextLine};
use crate::sampling::SamplingParams;
use crate::terminal::Progress;

/// What servers understand: each protocol is one file and one line here.
pub const SERVER_APIS: [ServerApi; 4] = [vllm::API, sglang::API, llama_cpp::API, openai::API];

/// What is asked of a server.
#[derive(Debug)]
pub struct Gathering<'a> {
    /// It.
    pub server: NamedServer<'a>,
    /// The prompts.
    pub prompts: &'a [TapePrompt],
    /// How texts are drawn.
    pub sampling: SamplingParams,
    /// Texts of each prompt; each has the next seed.
    pub repeats: u64,
    /// The seed of the first.
    pub seed: u64,
    /// Tokens of a text at most.
    pub max_tokens: usize,
}

impl Gathering<'_> {
    /// Asks for all texts that the file does not have yet, and appends them to it.
    ///
    /// # Errors
    /// If the server refuses a request or does not answer, or the file cannot be written or has
    /// texts that were drawn otherwise. Texts that came before stay in the file.
    pub fn run(&self, file: &std::path::Path) -> Result<()> {
        let mut kept = KeptTexts::open(file, self.sampling)?;
        let server = self.server.open()?;
        let seeds = (0..self.repeats).map(|repeat| self.seed + repeat);
        let all = seeds.flat_map(|seed| {
            self.prompts.iter().map(move |prompt| {
                let (sampling, max_tokens) = (self.sampling, self.max_tokens);
                AskedText { prompt, sampling, seed, max_tokens }
            })
        });
        let total = self.repeats as usize * self.prompts.len();
        let missing = all.filter(|text| !kept.has(&text.prompt.id, text.seed)).collect::<Vec<_>>();
        let mut progress = Progress::new("texts", total, total - missing.len());
        let gate = RateGate::new(self.server.rate);
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (sender, answers) = channel::<Result<TextLine>>();
        thread::scope(|scope| {
            for _ in 0..self.server.concurrency.min(missing.len()) {
                let sender = sender.clone();
                scope.spawn(|| {
                    let sender = sender;
                    while !failed.load(Ordering::Relaxed) {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(asked) = missing.get(at) else { return };
                        gate.wait();
                        let answer = self.ask(&server, asked);
                        failed.fetch_or(answer.is_err(), Ordering::Relaxed);
                        if sender.send(answer).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            for answer in answers {
                let line = answer.inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
                kept.append(&line).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
                progress.advance(&crate::shown::line(line.prompt.as_deref().unwrap_or_default()));
            }
            Ok(())
        })
    }

    fn ask(&self, server: &HttpServer, asked: &AskedText<'_>) -> Result<TextLine> {
        let body = (self.server.api.request)(server, asked);
        let place =
            || format!("{}{}, prompt {}", self.server.url, self.server.api.path, asked.prompt.id);
        let answer = server.post(self.server.api.path, &body).with_context(place)?;
        let answered = (self.server.api.answer)(&answer)
            .map_err(|error| {
                let text = answer.to_string().chars().take(200).collect::<String>();
                anyhow!("{error:#}; the answer begins with {}", crate::shown::line(&text))
            })
            .with_context(place)?;
        Ok(TextLine {
            prompt: Some(asked.prompt.id.clone()),
            prompt_ids: asked.prompt.tokens.clone(),
            output_ids: answered.tokens,
            sampling: asked.sampling,
            seed: Some(asked.seed),
            finish: answered.end,
            accepted: answered.accepted,
            drafted: answered.drafted,
            ..TextLine::default()
        })
    }
}
