//! A server as a model: it tells the law of each token, and thereby scores texts that models of
//! this program cannot.

use std::thread;

use anyhow::{Context, Result, anyhow, bail};

use super::api::{AskedLaws, NamedServer, ServerApi, ToldLaw};
use super::http::HttpServer;
use super::rate::RateGate;
use crate::distribution::Token;
use crate::error::Error;
use crate::model::{CacheDtype, Evaluation, LanguageModel, ModelInfo, Session, Work};
use crate::sampling::{Logits, SamplingParams};

/// How laws are asked for.
#[derive(Debug)]
pub struct ScoredBy<'a> {
    /// Whom.
    pub server: NamedServer<'a>,
    /// The tokens of its vocabulary, if they are known.
    pub vocab: Option<usize>,
    /// Log-probabilities of each law, the largest ones; none for those of all tokens.
    pub logprobs: Option<usize>,
}

/// A server that tells laws. Their log-probabilities are logits up to a constant.
#[derive(Debug)]
pub struct ScoringServer {
    server: HttpServer,
    api: ServerApi,
    /// The token that answers consist of, where it matters.
    token: Option<Token>,
    /// How many log-probabilities are asked for; none for those of all tokens.
    count: Option<usize>,
    info: ModelInfo,
    concurrency: usize,
    gate: RateGate,
}

/// The most laws of a request: servers have queues that end.
const MOST_LAWS: usize = 8;
/// About how long an answer may become, and how long a log-probability is in it, in bytes.
const ANSWER: usize = 32 << 20;
const LOGPROB: usize = 100;
/// What no context is longer than; servers refuse what is too long for them.
const POSITIONS: usize = 1 << 30;
/// Log-probabilities below this stand for minus infinity, which JSON does not have: vLLM writes
/// -9999, llama.cpp the least number.
const IMPOSSIBLE: f64 = -9000.0;
/// How far the sum of all probabilities may be from 1.
const ROUNDING: f64 = 1e-3;
/// How far the logit of a token that was not told is taken to be below the least that was, as it
/// is at least: little, so that the token counts as a tie where that one is the last that may be
/// drawn.
const NOT_TOLD: f64 = 1e-4;

impl ScoredBy<'_> {
    /// Asks the server for a first law, which tells its vocabulary.
    ///
    /// # Errors
    /// If it does not answer, makes its texts up, or does not tell its laws.
    pub fn open(&self) -> Result<ScoringServer> {
        let NamedServer { url, api, concurrency, rate, .. } = self.server;
        let server = self.server.open()?;
        let token = (api.laws.begin)(&server).with_context(|| url.to_owned())?;
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
            if !api.laws.whole {
                let name = api.name;
                bail!(
                    "{url}: --api {name} does not tell how many tokens there are: name the size of \
                     the vocabulary with --vocab-size"
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
    /// The size of the vocabulary, from a law of all of it.
    fn vocab(&self) -> Result<usize> {
        let laws = self.told(&[vec![0]]).with_context(|| {
            "the server does not tell log-probabilities of the whole vocabulary; vLLM and specdec \
             serve do with --max-logprobs -1 (or name its size, --vocab-size, and how many it \
             tells, --logprobs, if texts are drawn with top_k)"
        })?;
        let mut tokens = laws[0].iter().map(|told| told.0).collect::<Vec<_>>();
        tokens.sort_unstable();
        if tokens.is_empty() || !tokens.iter().copied().eq(0..tokens.len() as Token) {
            let (url, told) = (&self.server.url, tokens.len());
            bail!(
                "{url} tells {told} log-probabilities where those of the whole vocabulary were \
                 asked for: name its size with --vocab-size"
            );
        }
        Ok(tokens.len())
    }

    /// Whether the most probable tokens alone are told, so that the law before truncation is not
    /// known.
    pub fn is_partial(&self) -> bool {
        self.count.is_some_and(|count| count < self.info.vocab)
    }

    /// Checks that the law of texts with this sampling setting follows from what the server tells.
    ///
    /// # Errors
    /// If it does not.
    pub fn check(&self, sampling: SamplingParams) -> Result<()> {
        let (url, words) = (&self.server.url, sampling.words());
        if sampling.repetition_penalty != 1.0 {
            bail!(
                "{url}: the law of texts at {words} does not follow from log-probabilities, since \
                 repetition_penalty divides logits"
            );
        }
        let Some(told) = self.count.filter(|_| self.is_partial()) else { return Ok(()) };
        let most = if sampling.is_greedy() { 1 } else { sampling.top_k };
        if !(1..=told).contains(&most) || sampling.penalties() != SamplingParams::NEUTRAL {
            bail!(
                "{url}: the law of texts at {words} does not follow from {told} log-probabilities: \
                 that needs temperature 0 or a top_k from 1 to {told}, and no penalties, or those \
                 of the whole vocabulary (leave out --logprobs; vLLM and specdec serve tell them with \
                 --max-logprobs -1)"
            );
        }
        Ok(())
    }

    /// The tokens of a text.
    ///
    /// # Errors
    /// If the server does not tell them.
    pub fn encode(&self, text: &str) -> Result<Vec<Token>> {
        (self.api.laws.encode)(&self.server, text).with_context(|| self.server.url.clone())
    }

    /// The logits after each prefix.
    fn rows(&self, prefixes: &[Vec<Token>]) -> Result<Vec<Logits>> {
        let fit = ANSWER / (LOGPROB * self.count.unwrap_or(self.info.vocab));
        let (most, at_a_time) =
            if self.api.laws.in_turn { (1, 1) } else { (MOST_LAWS, self.concurrency) };
        let requests = prefixes.chunks(fit.clamp(1, most)).collect::<Vec<_>>();
        let mut rows = Vec::with_capacity(prefixes.len());
        for requests in requests.chunks(at_a_time) {
            let answers = thread::scope(|scope| {
                let ask = |prefixes| scope.spawn(move || self.ask(prefixes));
                let asked = requests.iter().map(|prefixes| ask(*prefixes)).collect::<Vec<_>>();
                asked.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
            });
            for answer in answers {
                rows.extend(answer.map_err(|_| anyhow!("a thread of requests has panicked"))??);
            }
        }
        Ok(rows)
    }

    /// The logits after the prefixes of a request.
    fn ask(&self, prefixes: &[Vec<Token>]) -> Result<Vec<Logits>> {
        let place = |prefix: &[Token]| {
            format!("{}{}, the law after {} tokens", self.server.url, self.api.path, prefix.len())
        };
        let told = self.told(prefixes)?;
        let laws = told.iter().zip(prefixes);
        laws.map(|(law, prefix)| self.logits(law).with_context(|| place(prefix))).collect()
    }

    /// What the server tells of the laws after some prefixes.
    fn told(&self, prefixes: &[Vec<Token>]) -> Result<Vec<ToldLaw>> {
        let place = || format!("{}{}", self.server.url, self.api.path);
        self.gate.wait();
        let asked = AskedLaws { prefixes, count: self.count, token: self.token };
        let body = (self.api.laws.request)(&self.server, &asked);
        let answer = self.server.post(self.api.path, &body).with_context(place)?;
        let laws = (self.api.laws.answer)(&answer).map_err(|error| {
            let text = answer.to_string().chars().take(200).collect::<String>();
            anyhow!("{error:#}; the answer begins with {}", crate::shown::line(&text))
        });
        let laws = laws.with_context(place)?;
        if laws.len() != prefixes.len() {
            bail!("{} tells {} laws of {}", place(), laws.len(), prefixes.len());
        }
        Ok(laws)
    }

    /// A law as logits.
    fn logits(&self, told: &[(Token, f64)]) -> Result<Logits> {
        let vocab = self.info.vocab;
        let mut row = vec![None; vocab];
        for &(token, logprob) in told {
            let place = row.get_mut(token as usize);
            let place = place.with_context(|| {
                format!("token {token} lies outside the vocabulary of {vocab} tokens")
            })?;
            if place.replace(logprob).is_some() {
                bail!("token {token} is there twice");
            }
        }
        let wanted = self.count.unwrap_or(vocab).min(vocab);
        if told.len() < wanted {
            bail!("it tells {} log-probabilities of {wanted}", told.len());
        }
        let sum = told.iter().map(|(_, logprob)| logprob.exp()).sum::<f64>();
        let whole = wanted == vocab;
        if !(sum <= 1.0 + ROUNDING && (sum >= 1.0 - ROUNDING || !whole)) {
            bail!("its {} probabilities sum to {sum:.4}", told.len());
        }
        let least = if whole { f64::NEG_INFINITY } else { least(told, wanted) - NOT_TOLD };
        let logit = |told: Option<f64>| match told.unwrap_or(least) {
            logprob if logprob < IMPOSSIBLE => f32::NEG_INFINITY,
            logprob => logprob as f32,
        };
        Ok(Logits::F32(row.into_iter().map(logit).collect()))
    }
}

/// The least of the `count` largest log-probabilities. Servers add that of the token that they
/// have drawn, which may be a less probable one.
fn least(told: &[(Token, f64)], count: usize) -> f64 {
    let mut logprobs = told.iter().map(|(_, logprob)| *logprob).collect::<Vec<_>>();
    logprobs.sort_unstable_by(|a, b| b.total_cmp(a));
    logprobs[count.saturating_sub(1)]
}

impl LanguageModel for ScoringServer {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// A session that remembers nothing.
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
            Ok(Evaluation { computed: rows.len(), rows })
        };
        work.iter_mut().map(evaluated).collect()
    }
}

/// What is known of a model that a server has.
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
        row_invariant: false,
        note: None,
    }
}
