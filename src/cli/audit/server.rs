//! The options that name a server whose completions are audited.

use std::path::Path;

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};

use super::scorer::Scorer;
use crate::cli::options::count;
use crate::cli::some_prompts::SomePrompts;
use crate::core::sampling::SamplingParams;
use crate::gather::{Gathering, NamedServer, SERVER_APIS, ScoringSettings};
use crate::tapes::recording::TapePrompt;

/// A server, and what to request from it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub(super) struct AuditedServer {
    /// Request completions from the server at this address, and append them to FILE; completions
    /// that FILE has already are not requested again
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Request the completions of --plain from this server: the same engine without speculation
    #[arg(long, value_name = "URL", requires = "url", requires = "plain")]
    plain_url: Option<String>,
    /// Let this server compute the target's distributions instead of --target: the same engine
    /// without speculation, whose models need not be available here
    #[arg(long, value_name = "URL",
        conflicts_with_all = ["target", "planted", "vocabulary", "chat"])]
    target_url: Option<String>,
    /// Number of log-probabilities of each token to request from --target-url; N suffice for
    /// completions with a top_k up to N and no penalties [default: those of the whole vocabulary]
    #[arg(long, value_name = "N", requires = "target_url", value_parser = count)]
    logprobs: Option<usize>,
    /// Size of the vocabulary of --target-url [default: that of --draft, or as many tokens as the
    /// server reports]
    #[arg(long, value_name = "N", requires = "target_url", value_parser = count)]
    vocab_size: Option<usize>,
    /// The protocol that the server speaks
    #[arg(long, value_name = "NAME", default_value = SERVER_APIS[0].name, value_parser = apis())]
    api: String,
    /// Name of the model in requests [default: the first that the server lists]
    #[arg(long, value_name = "NAME")]
    served_model: Option<String>,
    /// Bearer token of the server
    #[arg(long, value_name = "KEY", env = "SPECDEC_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Number of tokens to request; prompts are repeated with further seeds
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = count)]
    tokens: usize,
    /// Maximum number of tokens of a completion
    #[arg(long, short = 'n', value_name = "N", default_value_t = 64, value_parser = count)]
    max_tokens: usize,
    /// Seed of the first completion of each prompt
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of concurrent requests
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = count)]
    concurrency: usize,
    /// Maximum number of requests per second
    #[arg(long, value_name = "X")]
    rate: Option<f64>,
    #[command(flatten)]
    prompts: SomePrompts,
}

fn apis() -> PossibleValuesParser {
    let apis = SERVER_APIS.iter().map(|api| PossibleValue::new(api.name).help(api.summary));
    apis.collect::<Vec<_>>().into()
}

impl AuditedServer {
    pub(super) fn is_named(&self) -> bool {
        self.url.is_some()
    }

    /// Checks the options that need no model.
    pub(super) fn check(&self) -> Result<()> {
        if !(1..=256).contains(&self.concurrency) {
            bail!("--concurrency is out of range: allowed is a whole number from 1 to 256");
        }
        if self.rate.is_some_and(|rate| !(1e-3..=1e6).contains(&rate)) {
            bail!("--rate is out of range: allowed is a number from 0.001 to 1000000");
        }
        let counts = [("--logprobs", self.logprobs), ("--vocab-size", self.vocab_size)];
        if let Some((option, _)) = counts.iter().find(|(_, count)| *count == Some(0)) {
            bail!("{option} is out of range: allowed is a whole number >= 1");
        }
        if self.tokens == 0 || self.max_tokens == 0 {
            bail!("--tokens and --max-tokens: allowed is a whole number >= 1");
        }
        Ok(())
    }

    /// Requests the completions that the files do not have yet.
    pub(super) fn gather(
        &self,
        scorer: &Scorer,
        sampling: SamplingParams,
        (file, plain): (&Path, Option<&Path>),
    ) -> Result<()> {
        let Some(url) = &self.url else { return Ok(()) };
        let prompts = scorer.prompts(&self.prompts, self.max_tokens)?;
        let vocab = scorer.models().0.info().vocab;
        self.ask(url, &prompts, sampling.clone(), vocab).run(file)?;
        if let (Some(url), Some(plain)) = (&self.plain_url, plain) {
            self.ask(url, &prompts, sampling, vocab).run(plain)?;
        }
        Ok(())
    }

    fn ask<'a>(
        &'a self,
        url: &'a str,
        prompts: &'a [TapePrompt],
        sampling: SamplingParams,
        vocab: usize,
    ) -> Gathering<'a> {
        let each = (prompts.len() * self.max_tokens).max(1);
        Gathering {
            server: self.named(url),
            prompts,
            sampling,
            repeats: self.tokens.div_ceil(each) as u64,
            seed: self.seed,
            max_tokens: self.max_tokens,
            vocab,
        }
    }

    fn named<'a>(&'a self, url: &'a str) -> NamedServer<'a> {
        let api = SERVER_APIS.iter().find(|api| api.name == self.api);
        NamedServer {
            url,
            api: api.unwrap_or(&SERVER_APIS[0]),
            api_key: self.api_key.as_deref(),
            model: self.served_model.as_deref(),
            concurrency: self.concurrency,
            rate: self.rate,
        }
    }

    /// The server that computes the target's distributions, if one is named.
    pub(super) fn scoring(&self) -> Option<ScoringSettings<'_>> {
        Some(ScoringSettings {
            server: self.named(self.target_url.as_deref()?),
            vocab: self.vocab_size,
            logprobs: self.logprobs,
        })
    }
}
