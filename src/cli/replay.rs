//! `specdec replay`: requests that came elsewhere come to the engine.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use super::method::MethodArgs;
use super::models::open_pair;
use super::options::{ModelArgs, count};
use super::output;
use super::sampling::SamplingArgs;
use super::some_prompts::SomePrompts;
use crate::clock::RealClock;
use crate::draft::{Texts, Tools};
use crate::input::read_text;
use crate::replay::{CostRatio, PlayedCosts, Player, RequestFile};
use crate::report;
use crate::shown;
use crate::simulation::{Latencies, ServedRun};

/// Options of `specdec replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec simulate 01.tape.jsonl --costs costs.csv --rate 16 --policy plain --repeats 1 \\
      --step-rows whole --requests-csv requests.csv
  specdec replay requests.csv --plain --slots 16 --csv replayed.csv
  specdec replay requests.csv --plain --costs costs.csv --played-costs played.csv
  specdec replay monday.csv --prompts monday.jsonl --target models/big --draft models/small -k 3

FILE has a row for each request: request (its number), prompt (an id of --prompts), tokens, and
arrived_ms or clients. Requests come in real time, share rounds as in `specdec serve`, and have as
many tokens as the file says. docs/simulate.md describes the columns.")]
pub(super) struct ReplayArgs {
    /// The requests: a CSV file, such as `specdec simulate --requests-csv` writes
    requests: PathBuf,
    #[command(flatten)]
    prompts: SomePrompts,
    #[command(flatten)]
    models: ModelArgs,
    #[command(flatten)]
    method: MethodArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// The most requests that share rounds; others wait
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count)]
    slots: usize,
    /// Seed of the texts
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write one row per request: when it came, and when it was done
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Tell how many times as long passes took as FILE says, which `specdec bench --costs` wrote
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Write the costs of --costs, scaled to what passes took, for `specdec simulate --costs`
    #[arg(long, value_name = "FILE", requires = "costs")]
    played_costs: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Plays the requests.
pub(super) fn run(args: &ReplayArgs) -> Result<()> {
    let spec = args.method.spec(&args.sampling)?;
    if args.slots == 0 {
        bail!("--slots 0: allowed are numbers above 0");
    }
    let asked = RequestFile::read(&args.requests)?;
    let mut costs = args.costs.as_deref().map(PlayedCosts::read).transpose()?;
    let (pair, _) = open_pair(&args.models, false, spec.needs_draft_model())?;
    let (target, draft) = (&pair.target, pair.draft_model());
    let texts = Texts::new(&*target.codec, read_text);
    let player = Player {
        target: &*target.model,
        tools: Tools { draft, target: Some(&*target.model), texts: Some(&texts) },
        spec: &spec,
        seed: args.seed,
        slots: args.slots,
    };
    let models = [Some(&*target.model), draft].into_iter().flatten();
    let context = models.map(|model| model.info().context_length).min().unwrap_or_default();
    let prompts = args.prompts.chosen(&pair, 1)?;
    let requests = asked.with_prompts(&prompts, context)?;
    let with_model = spec.needs_draft_model();
    let run = player.play(&requests, &RealClock::default(), &mut |step| {
        costs.iter_mut().for_each(|costs| costs.add(step, with_model));
    })?;
    if let Some(file) = &args.csv {
        report::write_csv(file, &asked.replayed(&run))?;
    }
    for (costs, file) in costs.iter().zip(&args.played_costs) {
        report::write_csv(file, &costs.rows())?;
    }
    let ratios = costs.iter().flat_map(PlayedCosts::ratios).collect();
    let found = ReplayReport::of(&run, ratios);
    if args.json { output::write_json(&found) } else { output::write(&format!("{found}\n")) }
}

/// What the command prints, in the words of `simulation.csv`.
#[derive(Debug, Serialize)]
struct ReplayReport {
    requests: usize,
    tokens: usize,
    tokens_per_second: f64,
    ms_per_token: f64,
    #[serde(flatten)]
    latencies: Latencies,
    batch: f64,
    busy: f64,
    tokens_per_round: f64,
    acceptance_rate: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cost_ratios: Vec<CostRatio>,
}

impl ReplayReport {
    fn of(run: &ServedRun, cost_ratios: Vec<CostRatio>) -> Self {
        let (loaded, ms) = run.under_load();
        Self {
            requests: run.requests.len(),
            tokens: run.tokens(),
            tokens_per_second: 1000.0 * loaded / ms,
            ms_per_token: run.decode_ms() / run.tokens() as f64,
            latencies: Latencies::of(run.requests.iter()),
            batch: run.rounds as f64 / run.steps as f64,
            busy: run.busy_ms / run.span_ms(),
            tokens_per_round: run.tokens() as f64 / run.rounds as f64,
            acceptance_rate: (run.drafted > 0).then(|| run.accepted as f64 / run.drafted as f64),
            cost_ratios,
        }
    }
}

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tokens_per_second, batch, tokens_per_round, .. } = self;
        write!(
            f,
            "{} with {}: ",
            shown::count(self.requests, "request"),
            shown::count(self.tokens, "token")
        )?;
        writeln!(
            f,
            "{tokens_per_second:.1} tokens per second, {:.1} % of the time busy",
            100.0 * self.busy
        )?;
        write!(f, "a step has {batch:.2} requests, and a round {tokens_per_round:.2} tokens")?;
        if let Some(rate) = self.acceptance_rate {
            write!(f, ", with {:.1} % of the drafted ones accepted", 100.0 * rate)?;
        }
        let Latencies { first_token_ms_p50, first_token_ms_p95, first_token_ms_p99, .. } =
            self.latencies;
        let Latencies { latency_ms_p50, latency_ms_p95, latency_ms_p99, .. } = self.latencies;
        for (what, [p50, p95, p99]) in [
            ("first tokens", [first_token_ms_p50, first_token_ms_p95, first_token_ms_p99]),
            ("whole texts", [latency_ms_p50, latency_ms_p95, latency_ms_p99]),
        ] {
            write!(f, "\n{what}: {p50:.1} ms in the median, ")?;
            write!(f, "95 % within {p95:.1} ms, 99 % within {p99:.1} ms")?;
        }
        for (number, CostRatio { what, ratio }) in self.cost_ratios.iter().enumerate() {
            write!(f, "{}{what} ", if number == 0 { "\ntime taken ÷ expected: " } else { ", " })?;
            match ratio {
                Some(ratio) => write!(f, "{ratio:.2}")?,
                None => write!(f, "unknown")?,
            }
        }
        Ok(())
    }
}
