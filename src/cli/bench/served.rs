//! `specdec bench --url`: what a server's passes cost, from what its clients see.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::{ArgGroup, Args};
use serde::Serialize;

use crate::cli::options;
use crate::cli::output::{self, shown};
#[cfg(feature = "serve")]
use crate::gather::{BenchedServer, ServerBench};
use crate::io::shown::count;
#[cfg(feature = "serve")]
use crate::io::terminal;
use crate::measure::bench::{FittedMs, ServedFit, ServedPoint, ServedSample, read_served};
use crate::measure::statistics::median;
use crate::run::report;

/// Servers to time, and results of other benchmarks.
#[derive(Debug, Args)]
#[command(next_help_heading = "Servers")]
#[command(group = ArgGroup::new("served").multiple(true)
    .conflicts_with_all(["target", "draft", "draft_shape"]))]
pub(super) struct ServedArgs {
    /// Time the rounds of the server at this address, which may draft; repeatable, for several
    /// lengths of drafts
    #[arg(long, value_name = "URL", group = "served")]
    url: Vec<String>,
    /// Time this server, too: the same engine and target without drafts
    #[arg(long, value_name = "URL", group = "served")]
    plain_url: Option<String>,
    /// The lengths of drafts, one per --url, of servers that do not report them
    #[arg(short, value_name = "N,…", value_delimiter = ',', requires = "url", value_parser = options::count)]
    k: Vec<usize>,
    /// Read the results of an earlier benchmark, also of `vllm bench serve`, GuideLLM or AIPerf;
    /// repeatable
    #[arg(long, value_name = "FILE", group = "served")]
    from: Vec<PathBuf>,
    /// Numbers of requests at the same time
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,8",
        requires = "served", value_parser = options::count)]
    concurrency: Vec<usize>,
    /// Tokens of prompts
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "64,256",
        requires = "served", value_parser = options::count)]
    prompt_tokens: Vec<usize>,
    /// Tokens of completions; more if that many do not decode at the same time
    #[arg(long, short = 'n', value_name = "N", default_value_t = 64, requires = "served",
        value_parser = options::count)]
    max_tokens: usize,
    /// Temperature of requests
    #[arg(long, value_name = "X", default_value_t = 0.0, requires = "served")]
    temperature: f64,
    /// Cut prompts from these sets or files [default: code, docs, edits]
    #[arg(long, value_name = "NAME|FILE", requires = "served")]
    prompts: Vec<String>,
    /// Name of the model in requests [default: the first that the server lists]
    #[arg(long, value_name = "NAME", requires = "served")]
    served_model: Option<String>,
    /// Print one JSON object
    #[arg(long, requires = "served")]
    json: bool,
    /// Bearer token of the servers
    #[arg(long, value_name = "KEY", env = "SPECDEC_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
}

/// The largest number of requests at the same time.
const MOST_REQUESTS: usize = 256;

impl ServedArgs {
    /// Whether servers are timed, not passes of models here.
    pub(super) fn are_given(&self) -> bool {
        !self.url.is_empty() || self.plain_url.is_some() || !self.from.is_empty()
    }

    pub(super) fn run(
        &self,
        budget: Duration,
        csv: Option<&Path>,
        costs: Option<&Path>,
    ) -> Result<()> {
        self.check()?;
        let mut samples = Vec::new();
        for file in &self.from {
            samples.extend(read_served(file)?);
        }
        let failed = self.time(budget, &mut samples)?;
        // The samples are kept even if a server failed, or nothing follows from them.
        if let Some(file) = csv {
            report::write_csv(file, &samples)?;
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let points = ServedPoint::all(&samples);
        let fit = ServedFit::of(&points);
        let shown = match self.json {
            true => output::write_json(&ServedReport::new(&points, fit.as_ref().ok())),
            false => output::show(&table(&points, fit.as_ref().ok())),
        };
        let fit = fit.map_err(|why| anyhow!("{why}"))?;
        if let Some(file) = costs {
            report::write_csv(file, &fit.rows(&points))?;
        }
        shown
    }

    fn check(&self) -> Result<()> {
        if self.concurrency.iter().any(|&n| !(1..=MOST_REQUESTS).contains(&n)) {
            bail!("--concurrency: allowed are whole numbers from 1 to {MOST_REQUESTS}");
        }
        if self.prompt_tokens.contains(&0) || self.max_tokens == 0 {
            bail!("--prompt-tokens and --max-tokens: allowed are whole numbers >= 1");
        }
        if !(0.0..=100.0).contains(&self.temperature) {
            bail!("--temperature is out of range: allowed is a number from 0 to 100");
        }
        if !self.k.is_empty() && self.k.len() != self.url.len() {
            bail!("-k has {} lengths, and there are {} --url", self.k.len(), self.url.len());
        }
        Ok(())
    }

    #[cfg(not(feature = "serve"))]
    fn time(&self, _: Duration, _: &mut Vec<ServedSample>) -> Result<Option<anyhow::Error>> {
        if self.url.is_empty() && self.plain_url.is_none() {
            return Ok(None);
        }
        bail!("--url needs a program that was built with the feature \"serve\"")
    }

    /// Adds what the servers show; gives the error that ended this.
    #[cfg(feature = "serve")]
    fn time(
        &self,
        budget: Duration,
        samples: &mut Vec<ServedSample>,
    ) -> Result<Option<anyhow::Error>> {
        let servers = self.servers();
        if servers.is_empty() {
            return Ok(None);
        }
        let bench = ServerBench {
            servers: &servers,
            api_key: self.api_key.as_deref(),
            model: self.served_model.as_deref(),
            batches: &self.concurrency,
            prompts: &self.prompt_tokens,
            tokens: self.max_tokens,
            temperature: self.temperature,
            text: &self.text()?,
            budget,
        };
        let found = bench.run()?;
        for sentence in &found.given_up {
            terminal::say(sentence);
        }
        samples.extend(found.samples);
        Ok(found.failed)
    }

    #[cfg(feature = "serve")]
    fn servers(&self) -> Vec<BenchedServer> {
        let plain = |url: &String| BenchedServer { url: url.clone(), k: Some(0) };
        let named = self.url.iter().enumerate();
        let named =
            named.map(|(at, url)| BenchedServer { url: url.clone(), k: self.k.get(at).copied() });
        self.plain_url.iter().map(plain).chain(named).collect()
    }

    /// The text that prompts are cut from.
    #[cfg(feature = "serve")]
    fn text(&self) -> Result<String> {
        let questions = crate::cli::some_prompts::questions(&self.prompts)?;
        let turns = questions.into_iter().flat_map(|question| question.asked.turns);
        let turns = turns.collect::<Vec<_>>();
        Ok(turns.join("\n\n"))
    }
}

/// What the command prints with `--json`.
#[derive(Debug, Serialize)]
struct ServedReport {
    settings: Vec<ServedRow>,
    /// Terms whose time belongs to others.
    unknown: Vec<&'static str>,
    /// Relative errors at settings between others, by the fit without them.
    left_out: Vec<f64>,
}

/// A setting, its mean round and the fitted one, in ms with a 95 % interval.
#[derive(Debug, Serialize)]
struct ServedRow {
    server: String,
    k: usize,
    batch: usize,
    prompt: usize,
    drafted: f64,
    context: f64,
    round_ms: f64,
    tokens_per_s: f64,
    first_ms: f64,
    repetitions: usize,
    disturbed: usize,
    fitted_ms: Option<f64>,
    fitted_ms_lo: Option<f64>,
    fitted_ms_hi: Option<f64>,
}

impl ServedReport {
    fn new(points: &[ServedPoint], fit: Option<&ServedFit>) -> Self {
        Self {
            settings: points.iter().map(|point| ServedRow::new(point, fit)).collect(),
            unknown: fit.map(|fit| fit.unknown.clone()).unwrap_or_default(),
            left_out: fit.map(|_| ServedFit::errors_left_out(points)).unwrap_or_default(),
        }
    }
}

impl ServedRow {
    fn new(point: &ServedPoint, fit: Option<&ServedFit>) -> Self {
        let (own, mean) = (point.setting(), |of: fn(&ServedSample) -> f64| point.mean(of));
        let (drafted, context) = (mean(|one| one.drafted), mean(|one| one.context));
        let fitted = fit.map(|fit| fit.round(drafted, own.batch as f64, context));
        let interval = fitted.and_then(|fitted| fitted.interval);
        Self {
            server: own.server.clone(),
            k: own.k,
            batch: own.batch,
            prompt: own.prompt,
            drafted,
            context,
            round_ms: mean(|one| one.round_ms),
            tokens_per_s: mean(|one| one.tokens_per_s),
            first_ms: mean(|one| one.first_ms),
            repetitions: point.kept.len(),
            disturbed: point.disturbed,
            fitted_ms: fitted.map(|fitted| fitted.ms),
            fitted_ms_lo: interval.map(|interval| interval.lo),
            fitted_ms_hi: interval.map(|interval| interval.hi),
        }
    }

    fn cells(&self) -> Vec<String> {
        let error = self.fitted_ms.map(|fitted| 100.0 * (self.round_ms / fitted - 1.0));
        vec![
            self.k.to_string(),
            self.batch.to_string(),
            self.prompt.to_string(),
            format!("{:.0}", self.context),
            format!("{:.3}", self.round_ms),
            shown(self.fitted_ms, 3),
            error.map_or_else(|| "-".to_owned(), |error| format!("{error:+.1} %")),
            format!("{:.1}", self.tokens_per_s),
            format!("{:.1}", self.first_ms),
            match self.disturbed {
                0 => self.repetitions.to_string(),
                disturbed => format!("{} ({disturbed} far)", self.repetitions),
            },
        ]
    }
}

fn table(points: &[ServedPoint], fit: Option<&ServedFit>) -> String {
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    let mut sorted = points.iter().collect::<Vec<_>>();
    sorted.sort_by_key(|point| (point.setting().k, point.setting().batch, point.setting().prompt));
    rows.extend(sorted.into_iter().map(|point| ServedRow::new(point, fit).cells()));
    let mut text = output::aligned(&rows, |_| true).join("\n") + "\n";
    if let Some(fit) = fit {
        // Writing to a string cannot fail.
        let _ = describe(&mut text, points, fit);
    }
    text
}

const COLUMNS: [&str; 10] = [
    "K",
    "requests",
    "prompt",
    "context",
    "ms/round",
    "fitted",
    "error",
    "tokens/s",
    "first ms",
    "repetitions",
];

fn describe(text: &mut String, points: &[ServedPoint], fit: &ServedFit) -> std::fmt::Result {
    let (errors, left_out) = (fit.errors(points), ServedFit::errors_left_out(points));
    writeln!(text, "\nerror of the fit: {}", spread(&errors))?;
    if !left_out.is_empty() {
        writeln!(
            text,
            "at settings between others, by the fit without them: {}",
            spread(&left_out)
        )?;
    }
    let context = points.iter().map(|point| point.mean(|one| one.context)).fold(0.0, f64::max);
    let batch = points.iter().map(|point| point.setting().batch).max().unwrap_or(1) as f64;
    let batches = if batch > 1.0 { vec![1.0, batch] } else { vec![1.0] };
    for batch in batches {
        let step = interval(fit.round(0.0, batch, context));
        writeln!(text, "{batch} requests after {context:.0} tokens: {step} for a step")?;
        if points.iter().any(|point| point.setting().k > 0) {
            writeln!(text, "  {} for each further drafted token", interval(fit.draft(batch)))?;
        }
    }
    let wild = points.iter().filter(|point| !point.is_steady()).count();
    if wild > 0 {
        let settings = count(wild, "setting");
        writeln!(text, "left out of the fit, since repetitions disagree: {settings}")?;
    }
    for term in &fit.unknown {
        writeln!(text, "not separated from other costs: {term}")?;
    }
    Ok(())
}

fn spread(errors: &[f64]) -> String {
    let middle = median(errors).unwrap_or_default();
    let most = errors.iter().copied().fold(0.0, f64::max);
    format!("median {:.1} %, at most {:.1} %", 100.0 * middle, 100.0 * most)
}

fn interval(time: FittedMs) -> String {
    let interval = time.interval.map(|own| format!(" [{:.3}, {:.3}]", own.lo, own.hi));
    format!("{:.3} ms{}", time.ms, interval.unwrap_or_default())
}
