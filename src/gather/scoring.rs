//! A server as a model: it reports the distribution of each token. So it scores sequences that no
//! model of this program can.

use std::thread::{self, Builder, ScopedJoinHandle};

use anyhow::{Context, Result, anyhow, bail};

use super::api::{LogprobsRequest, NamedServer, ServerApi, TopLogprobs};
use super::http::HttpServer;
use super::rate::RateGate;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::{Logits, SamplingParams};
use crate::model::{CacheDtype, Evaluation, LanguageModel, ModelInfo, ModelInputs, Session, Work};

/// How to score sequences by a server.
#[derive(Debug)]
pub struct ScoringSettings<'a> {
    /// The server.
    pub server: NamedServer<'a>,
    /// The size of its vocabulary, if it is known.
    pub vocab: Option<usize>,
    /// Number of log-probabilities per token, the largest ones; none for the whole vocabulary.
    pub logprobs: Option<usize>,
}

/// A server that reports log-probabilities, which are logits up to a constant.
#[derive(Debug)]
pub struct ScoringServer {
    server: HttpServer,
    api: ServerApi,
    /// The token that answers must consist of, if that matters.
    token: Option<Token>,
    /// Number of log-probabilities to request; none for the whole vocabulary.
    count: Option<usize>,
    info: ModelInfo,
    concurrency: usize,
    gate: RateGate,
}

/// Maximum number of prefixes of a request, since the queues of servers are limited.
const MAX_PREFIXES: usize = 8;
/// Approximate maximum length of an answer, and the length of a log-probability in it, in bytes.
const ANSWER: usize = 32 << 20;
const LOGPROB: usize = 100;
/// Maximum length of a context; servers refuse contexts that are too long for them.
const POSITIONS: usize = 1 << 30;
/// Log-probabilities below this stand for minus infinity, which JSON does not have: vLLM writes
/// -9999, llama.cpp the smallest number.
const IMPOSSIBLE: f64 = -9000.0;
/// How far the sum of all probabilities may differ from 1.
const ROUNDING: f64 = 1e-3;
/// Assumed distance between the logit of an unreported token and the smallest reported one, which
/// is above it. The distance is small, so the token counts as a tie if the smallest reported token
/// is the last one that may be drawn.
const UNREPORTED: f64 = 1e-4;

impl ScoringSettings<'_> {
    /// Requests a first distribution, which shows the size of the vocabulary.
    ///
    /// # Errors
    /// If it does not answer, its completions are synthetic, or it does not report distributions.
    pub fn open(&self) -> Result<ScoringServer> {
        let NamedServer { url, api, concurrency, rate, .. } = self.server;
        let server = self.server.open()?;
        let token = (api.logprobs.begin)(&server).with_context(|| url.to_owned())?;
        let mut opened = ScoringServer {
            server,
            api: *api,
            token,
            count: self.vocab,
            info: info(url, self.vocab.unwrap_or_default()),
            concurrency,
            gate: RateGate::new(rate),
        };
        if self.vocab.is_none() {
            if !api.logprobs.whole {
                let name = api.name;
                bail!(
                    "{url}: --api {name} does not report the size of the vocabulary: name it with \
                     --vocab-size"
                );
            }
            opened.info.vocab = opened.vocab()?;
        }
        let vocab = opened.info.vocab;
        if self.logprobs.is_some_and(|count| count < vocab) {
            opened.count = self.logprobs;
        }
        Ok(opened)
    }
}

impl ScoringServer {
    /// The size of the vocabulary, from a distribution over all of it.
    fn vocab(&self) -> Result<usize> {
        let reported = self.reported(&[vec![0]]).with_context(|| {
            "the server does not report log-probabilities of the whole vocabulary; vLLM and \
             specdec serve do with --max-logprobs -1 (or name its size, --vocab-size, and how many \
             it reports, --logprobs, if completions are drawn with top_k)"
        })?;
        let mut tokens = reported[0].iter().map(|(token, _)| *token).collect::<Vec<_>>();
        tokens.sort_unstable();
        if tokens.is_empty() || !tokens.iter().copied().eq(0..tokens.len() as Token) {
            let (url, count) = (&self.server.url, tokens.len());
            bail!(
                "{url} reports {count} log-probabilities where those of the whole vocabulary were \
                 requested: name its size with --vocab-size"
            );
        }
        Ok(tokens.len())
    }

    /// Whether only the most probable tokens are reported, so that the distribution before
    /// truncation is unknown.
    pub fn is_partial(&self) -> bool {
        self.count.is_some_and(|count| count < self.info.vocab)
    }

    /// Checks that the reported log-probabilities determine the distribution of completions with
    /// this sampling setting.
    ///
    /// # Errors
    /// If they do not.
    pub fn check(&self, sampling: SamplingParams) -> Result<()> {
        let (url, words) = (&self.server.url, sampling.words());
        if sampling.repetition_penalty != 1.0 {
            bail!(
                "{url}: the distribution of completions at {words} does not follow from \
                 log-probabilities, since repetition_penalty divides logits"
            );
        }
        let Some(reported) = self.count.filter(|_| self.is_partial()) else { return Ok(()) };
        let most = if sampling.is_greedy() { 1 } else { sampling.top_k };
        if !(1..=reported).contains(&most) || sampling.logit_processors() != SamplingParams::NEUTRAL
        {
            bail!(
                "{url}: the distribution of completions at {words} does not follow from {reported} \
                 log-probabilities: that needs temperature 0 or a top_k from 1 to {reported}, and \
                 no penalties, or those of the whole vocabulary (leave out --logprobs; vLLM and \
                 specdec serve report them with --max-logprobs -1)"
            );
        }
        Ok(())
    }

    /// The tokens of a text.
    ///
    /// # Errors
    /// If the server does not report them.
    pub fn encode(&self, text: &str) -> Result<Vec<Token>> {
        (self.api.logprobs.encode)(&self.server, text).with_context(|| self.server.url.clone())
    }

    /// The logits after each prefix.
    fn rows(&self, prefixes: &[Vec<Token>]) -> Result<Vec<Logits>> {
        let fit = ANSWER / (LOGPROB * self.count.unwrap_or(self.info.vocab));
        let (most, at_a_time) =
            if self.api.logprobs.in_turn { (1, 1) } else { (MAX_PREFIXES, self.concurrency) };
        let requests = prefixes.chunks(fit.clamp(1, most)).collect::<Vec<_>>();
        let mut rows = Vec::with_capacity(prefixes.len());
        for requests in requests.chunks(at_a_time) {
            let answers = thread::scope(|scope| {
                let ask = |prefixes| {
                    let thread = Builder::new().spawn_scoped(scope, move || self.ask(prefixes));
                    thread.map_err(|_| self.ask(prefixes))
                };
                let asked = requests.iter().map(|prefixes| ask(*prefixes)).collect::<Vec<_>>();
                let answer = |asked: Result<ScopedJoinHandle<'_, _>, _>| match asked {
                    Ok(thread) => thread.join().map_err(|_| anyhow!("a request has panicked"))?,
                    Err(answer) => answer,
                };
                asked.into_iter().map(answer).collect::<Result<Vec<_>>>()
            });
            rows.extend(answers?.into_iter().flatten());
        }
        Ok(rows)
    }

    /// The logits after the prefixes of a request.
    fn ask(&self, prefixes: &[Vec<Token>]) -> Result<Vec<Logits>> {
        let place = |prefix: &[Token]| {
            let (url, path) = (&self.server.url, self.api.path);
            format!("{url}{path}, the distribution after {} tokens", prefix.len())
        };
        let reported = self.reported(prefixes)?;
        let rows = reported.iter().zip(prefixes);
        rows.map(|(top, prefix)| self.logits(top).with_context(|| place(prefix))).collect()
    }

    /// The log-probabilities that the server reports after some prefixes.
    fn reported(&self, prefixes: &[Vec<Token>]) -> Result<Vec<TopLogprobs>> {
        let place = || format!("{}{}", self.server.url, self.api.path);
        self.gate.wait();
        let asked = LogprobsRequest { prefixes, count: self.count, token: self.token };
        let body = (self.api.logprobs.request)(&self.server, &asked);
        let reported = self.server.ask(self.api.path, &body, self.api.logprobs.answer);
        let reported = reported.with_context(place)?;
        if reported.len() != prefixes.len() {
            bail!("{} reports {} distributions of {}", place(), reported.len(), prefixes.len());
        }
        Ok(reported)
    }

    /// Reported log-probabilities as logits.
    fn logits(&self, reported: &[(Token, f64)]) -> Result<Logits> {
        let vocab = self.info.vocab;
        let mut row = vec![None; vocab];
        for &(token, logprob) in reported {
            let place = row.get_mut(token as usize);
            let place = place.with_context(|| {
                format!("token {token} lies outside the vocabulary of {vocab} tokens")
            })?;
            if place.replace(logprob).is_some() {
                bail!("token {token} occurs twice");
            }
        }
        let wanted = self.count.unwrap_or(vocab).min(vocab);
        if reported.len() < wanted {
            bail!("it reports {} log-probabilities of {wanted}", reported.len());
        }
        let sum = reported.iter().map(|(_, logprob)| logprob.exp()).sum::<f64>();
        let whole = wanted == vocab;
        if !(sum <= 1.0 + ROUNDING && (sum >= 1.0 - ROUNDING || !whole)) {
            bail!("its {} probabilities sum to {sum:.4}", reported.len());
        }
        let least = if whole { f64::NEG_INFINITY } else { least(reported, wanted) - UNREPORTED };
        let logit = |reported: Option<f64>| match reported.unwrap_or(least) {
            logprob if logprob < IMPOSSIBLE => f32::NEG_INFINITY,
            logprob => logprob as f32,
        };
        Ok(Logits::F32(row.into_iter().map(logit).collect()))
    }
}

/// The smallest of the `count` largest log-probabilities. Servers add that of the token that they
/// drew, which may be less probable.
fn least(reported: &[(Token, f64)], count: usize) -> f64 {
    let mut logprobs = reported.iter().map(|(_, logprob)| *logprob).collect::<Vec<_>>();
    logprobs.sort_unstable_by(|a, b| b.total_cmp(a));
    logprobs[count.saturating_sub(1)]
}

impl LanguageModel for ScoringServer {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// A session without a cache.
    fn session(&self) -> Result<Session, Error> {
        Ok(Session::without_cache(POSITIONS))
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        let evaluated = |work: &mut Work<'_>| {
            let prefix = |row: usize| {
                let drafted = row.checked_sub(1).map(|node| work.draft.tokens_to(node));
                [work.context, &drafted.unwrap_or_default()].concat()
            };
            let prefixes = work.want.rows(work.draft.len()).into_iter().map(prefix);
            let rows = self.rows(&prefixes.collect::<Vec<_>>());
            let rows = rows.map_err(|error| Error::engine(format!("{error:#}")))?;
            Ok(Evaluation { computed: rows.len(), rows, ..Evaluation::default() })
        };
        work.iter_mut().map(evaluated).collect()
    }
}

/// What is known of a server's model.
fn info(url: &str, vocab: usize) -> ModelInfo {
    ModelInfo {
        name: url.to_owned(),
        revision: None,
        vocab,
        context_length: POSITIONS,
        eos: Vec::new(),
        engine: "server",
        dtype: "unknown",
        cache_dtype: CacheDtype::F32,
        device: "unknown".to_owned(),
        sha256: String::new(),
        tokenizer_sha256: String::new(),
        parameters: 0,
        projection_weights: 0,
        bytes_per_token: 0,
        experts: None,
        deepest: None,
        at_once: false,
        row_invariant: false,
        hidden: None,
        inputs: ModelInputs::Tokens,
        note: None,
    }
}
