//! `specdec serve`: an OpenAI-compatible server over the engine.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, absolute};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use super::method::MethodArgs;
use super::models::{open_pair, say_note};
use super::options::{ModelArgs, count, named};
use super::sampling::SamplingArgs;
use crate::bugs::{Bug, wrong_method};
use crate::io::terminal;
use crate::serve::{
    LogprobsMode, MUTANT_HEADER, MetricNames, ServeLimits, ServeSettings, ServedPair, serve,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec serve
  specdec serve --target models/big --draft models/small -k 6 --port 8001 --slots 4
  specdec serve --plain --port 8002
  specdec serve --mutant correction_from_p --port 8003
  curl localhost:8000/v1/completions --json '{\"prompt\": \"fn main() {\", \"max_tokens\": 32}'

Serves /v1/completions, /v1/chat/completions, /v1/models, /health and /metrics. docs/serve.md
describes the fields. Requests bring their own sampling settings and seeds; the method is the
server's. Ends with Ctrl-C: texts that were asked for are still made.")]
pub(super) struct ServeArgs {
    #[command(flatten)]
    models: ModelArgs,
    #[command(flatten)]
    method: MethodArgs,
    #[command(flatten)]
    sampling: SamplingArgs<false>,
    /// Serve a known-wrong method, to test what should find it; each answer says so in a header
    #[arg(long, value_name = "NAME")]
    mutant: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Where it listens, and what it allows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
struct ServerArgs {
    /// Address to listen at; the default is reached from this machine alone, and any other needs
    /// --api-key or --no-api-key
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port to listen at; 0 takes a free one
    #[arg(long, value_name = "N", default_value_t = 8000)]
    port: u16,
    /// Name of a host that requests may be sent to, for containers and proxies; may be repeated.
    /// localhost and IP addresses are always allowed
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    allow_host: Vec<String>,
    /// Name of the model in requests and answers [default: the target's name, without folders]
    #[arg(long, value_name = "NAME")]
    served_model_name: Option<String>,
    /// What clients must send as a bearer token
    #[arg(long, value_name = "KEY", env = "SPECDEC_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Let everyone who can reach the server use it
    #[arg(long, conflicts_with = "api_key")]
    no_api_key: bool,
    /// Which distribution log-probabilities are of: the target's before all processors, or the
    /// processed one
    #[arg(long, value_name = "WHICH", default_value = LogprobsMode::Raw.name(),
        value_parser = named(LogprobsMode::ALL, LogprobsMode::name))]
    logprobs_mode: LogprobsMode,
    /// Whose names the metrics of /metrics have: specdec's own, or vLLM's where it has the metric
    #[arg(long, value_name = "NAME", default_value = MetricNames::Own.name(),
        value_parser = named(MetricNames::ALL, MetricNames::name))]
    compat: MetricNames,
    /// Texts that share rounds
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count)]
    slots: usize,
    /// Texts that may wait; further ones are refused with status 429
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = count)]
    queue: usize,
    /// Tokens of a text at most [default: as many as the context has]
    #[arg(long, value_name = "N", value_parser = count)]
    max_tokens: Option<usize>,
    /// Log-probabilities per token at most; -1 for as many as the vocabulary has tokens, which
    /// lets the server score texts for `specdec audit --target-url`
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true,
        value_parser = most_logprobs)]
    max_logprobs: i64,
    /// KiB of a request's body at most
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = count)]
    max_body_kib: usize,
    /// Seconds that a text may take, with its time in the queue
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    time_limit: u32,
}

/// Parses a number of log-probabilities.
fn most_logprobs(text: &str) -> Result<i64, String> {
    let most = text.parse().ok().filter(|most| *most >= -1);
    most.ok_or_else(|| "allowed is a whole number >= -1".to_owned())
}

/// Parses the name of a host.
fn host_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_name = !text.is_empty() && text.chars().all(fits);
    is_name.then(|| text.to_ascii_lowercase()).ok_or_else(|| {
        "allowed is a name such as gpu.example.org, without scheme and port".to_owned()
    })
}

/// The name of a target without the folders that it lies in, which are not the clients' business.
fn public_name(target: &str) -> String {
    let (kind, place) = match target.strip_prefix("toy:") {
        Some(place) => ("toy:", place),
        None => ("", target),
    };
    let path = absolute(place).ok().filter(|path| path.exists());
    let name = path.as_deref().and_then(Path::file_name);
    name.map_or_else(|| target.to_owned(), |name| format!("{kind}{}", name.to_string_lossy()))
}

impl ServerArgs {
    fn check(&self) -> Result<()> {
        if self.api_key.as_ref().is_some_and(String::is_empty) {
            bail!("--api-key (SPECDEC_API_KEY) is empty: allowed is a text of at least one byte");
        }
        let is_open = self.api_key.is_none() && !self.no_api_key;
        if is_open && !self.host.to_canonical().is_loopback() {
            bail!(
                "--host {}: other machines may reach this address: set --api-key, or let everyone \
                 in with --no-api-key",
                self.host
            );
        }
        for (option, number, most) in [
            ("--slots", self.slots, 1024),
            ("--queue", self.queue, 65536),
            ("--max-body-kib", self.max_body_kib, 262_144),
        ] {
            if !(1..=most).contains(&number) {
                bail!("{option} is out of range: allowed is a whole number from 1 to {most}");
            }
        }
        Ok(())
    }

    /// What a server of a model with `vocab` tokens allows.
    fn limits(&self, vocab: usize) -> ServeLimits {
        ServeLimits {
            slots: self.slots,
            queue: self.queue,
            body: self.max_body_kib << 10,
            tokens: self.max_tokens,
            time: Duration::from_secs(self.time_limit.into()),
            logprobs: usize::try_from(self.max_logprobs).unwrap_or(vocab),
            vocab,
        }
    }
}

/// Serves until it receives a signal to end.
pub(super) fn run(args: &ServeArgs) -> Result<()> {
    let spec = args.method.spec_of(args.sampling.draft()?)?;
    let wrong = args.mutant.as_deref().map(wrong_method).transpose()?;
    args.server.check()?;
    let needs_draft = spec.needs_draft_model() || wrong.is_some();
    let (pair, (name, _)) = open_pair(&args.models, false, needs_draft)?;
    say_note(pair.target.model.info());
    let settings = ServeSettings {
        address: SocketAddr::new(args.server.host, args.server.port),
        model: args.server.served_model_name.clone().unwrap_or_else(|| public_name(&name)),
        api_key: args.server.api_key.clone(),
        allowed_hosts: args.server.allow_host.clone(),
        mutant: wrong.map(|(bug, _)| bug.name),
        logprobs: args.server.logprobs_mode,
        metrics: args.server.compat,
        limits: args.server.limits(pair.target.model.info().vocab),
    };
    let model = settings.model.clone();
    let mutant = wrong.map(|(_, mutant)| mutant);
    serve(ServedPair { pair: &pair, spec, mutant }, settings, |address| {
        if let Some((Bug { name, summary, .. }, _)) = wrong {
            terminal::say(format_args!(
                "WARNING: this server is wrong on purpose ({name}): {summary}. Each answer has \
                 the header {MUTANT_HEADER}: {name}"
            ));
        }
        terminal::say(format_args!("{model} is served at http://{address}"));
    })
}
