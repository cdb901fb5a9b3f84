//! `specdec certify --external`: certifies a verifier in another program.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::process::ProcessVerifier;
use super::program::Program;
use super::rows::{RowsSource, rows};
use crate::cli::options::{ModelArgs, count};
use crate::cli::output;
use crate::io::output::write_whole;
use crate::proof::external::{
    ExternalCertificate, ExternalOptions, ExternalPrecision, certify_external, certify_rows,
};
use crate::proof::{RoundOfDrafts, SchedulerReport, SchedulerVerdict, certify_scheduler};
use crate::run::experiment::Provenance;

/// Options for a verifier in another program.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "A verifier of your own")]
pub(super) struct ExternalArgs {
    /// A verifier program, which reads rounds from standard input and writes its decisions to
    /// standard output, as JSON lines
    ///
    /// The command is split into words as by a shell. A program that decides only by {"choose":
    /// weights} is enumerated; one that requests {"uniform": n} is sampled.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = [
        "method", "full", "tokens", "prompts",
    ])]
    pub(super) external: Option<String>,
    /// Take p and q from models at the completions of this tape, instead of from tables
    ///
    /// --target and --draft name the models; the tape has the sampling settings. The vocabulary of a
    /// case is that of the most likely tokens, with one more for all others.
    #[arg(long, value_name = "TAPE", requires = "external")]
    rows: Option<PathBuf>,
    /// Number of tokens of the vocabulary; with the default V and K, a few cases have others
    #[arg(long, value_name = "V", default_value_t = 4, value_parser = count, requires = "external")]
    vocab: usize,
    /// Number of drafted tokens
    #[arg(long, short = 'k', value_name = "K", default_value_t = 3, value_parser = count,
        requires = "external")]
    num_speculative_tokens: usize,
    /// The verifier's precision, f64 or f32, which decides how large rounding errors may be
    #[arg(long, value_name = "NAME", default_value = "f64", value_parser = precision,
        requires = "external")]
    precision: ExternalPrecision,
    /// The total variation that sampling must detect in nine of ten runs; it determines the number
    /// of rounds
    #[arg(long, value_name = "TV", default_value_t = 0.01, requires = "external")]
    detect: f64,
    /// Sample this number of rounds
    #[arg(long, value_name = "N", requires = "external", conflicts_with = "detect")]
    rounds: Option<u64>,
    /// Seed of the random cases and of sampled rounds
    #[arg(long, value_name = "N", default_value_t = 0, requires = "external")]
    seed: u64,
    /// Time limit of an answer; the first includes loading the program's libraries
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    time_limit: f64,
    /// A scheduler program, which decides how many drafted tokens of two requests are verified
    ///
    /// It reads rounds from standard input and writes lengths to standard output, as JSON lines.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = [
        "external", "method", "full", "target", "draft", "tokens", "prompts",
    ])]
    pub(super) scheduler: Option<String>,
}

fn precision(text: &str) -> Result<ExternalPrecision, String> {
    match text {
        "f64" => Ok(ExternalPrecision::F64),
        "f32" => Ok(ExternalPrecision::F32),
        _ => Err("allowed are f64 and f32".to_owned()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "allowed is a number of seconds from 0.01 to 86400".to_owned())
}

/// A certificate with its provenance and command.
#[derive(Serialize)]
struct ExternalFile<'c> {
    #[serde(flatten)]
    provenance: Provenance,
    command: &'c str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<RowsSource>,
    #[serde(flatten)]
    certificate: &'c ExternalCertificate,
}

/// Certifies the verifier and prints the table and the verdict.
pub(super) fn run(
    command: &str,
    (args, models): (&ExternalArgs, &ModelArgs),
    provenance: Provenance,
    json: Option<&Path>,
) -> Result<()> {
    if args.rows.is_none() && (models.target.is_some() || models.draft.is_some()) {
        bail!("--target and --draft name the models of --rows TAPE: give a tape, too");
    }
    let source = args.rows.as_deref().map(|tape| rows(tape, models)).transpose()?;
    let options = ExternalOptions {
        vocab: args.vocab,
        k: args.num_speculative_tokens,
        precision: args.precision,
        detect: args.detect,
        rounds: args.rounds,
        seed: args.seed,
    };
    let limit = Duration::from_secs_f64(args.time_limit);
    let mut process = ProcessVerifier(Program::start(("--external", command), limit)?);
    let (certificate, rows) = match source {
        Some((rows, source)) => (certify_rows(&mut process, &options, &rows)?, Some(source)),
        None => (certify_external(&mut process, &options)?, None),
    };
    drop(process);
    let shown = output::show(&certificate.table());
    if let Some(path) = json {
        let file = ExternalFile { provenance, command, rows, certificate: &certificate };
        let text = serde_json::to_string(&file).context("cannot write JSON")?;
        write_whole(path, format!("{text}\n").as_bytes())?;
    }
    if !certificate.holds() {
        bail!("{}", certificate.sentence());
    }
    shown.and(output::show(&format!("{}\n", certificate.sentence())))
}

/// A report on a scheduler with its provenance and command.
#[derive(Serialize)]
struct SchedulerFile<'c> {
    #[serde(flatten)]
    provenance: Provenance,
    command: &'c str,
    verdict: SchedulerVerdict,
    #[serde(flatten)]
    report: &'c SchedulerReport,
}

/// The message to a scheduler.
#[derive(Serialize)]
struct Schedule<'m> {
    schedule: &'m [RoundOfDrafts],
}

/// The answer of a scheduler.
#[derive(Deserialize)]
struct Lengths {
    lengths: Vec<usize>,
}

/// Certifies a scheduler and prints the verdict.
pub(super) fn run_scheduler(
    command: &str,
    args: &ExternalArgs,
    provenance: Provenance,
    json: Option<&Path>,
) -> Result<()> {
    let limit = Duration::from_secs_f64(args.time_limit);
    let mut program = Program::start(("--scheduler", command), limit)?;
    let report = certify_scheduler(&mut |schedule| {
        program.send(&[Schedule { schedule }])?;
        program.answer::<Lengths>("{\"lengths\": [n, n]}").map(|answer| answer.lengths)
    })?;
    drop(program);
    let verdict = report.verdict();
    if let Some(path) = json {
        let file = SchedulerFile { provenance, command, verdict, report: &report };
        let text = serde_json::to_string(&file).context("cannot write JSON")?;
        write_whole(path, format!("{text}\n").as_bytes())?;
    }
    if verdict != SchedulerVerdict::Exact {
        bail!("{}", report.sentence());
    }
    output::show(&format!("{}\n", report.sentence()))
}
