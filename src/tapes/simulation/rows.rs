//! The rows of `simulation.csv`.

use serde::Serialize;

use super::arrivals::Arrivals;
use super::measures::{ServedRequest, ServedRun, TimeQuantiles};
use super::sequence::SimulatedSequence;
use crate::core::sampling::SamplingParams;
use crate::io::shown::cell;
use crate::measure::statistics::Ratio;

/// A simulated configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[allow(missing_docs)]
pub struct SimulationConfig {
    #[serde(flatten)]
    pub sampling: SamplingParams,
    pub drafter: String,
    #[serde(with = "cell")]
    pub draft: String,
    #[serde(with = "cell")]
    pub params: String,
    pub verifier: String,
    pub policy: String,
    pub num_speculative_tokens: usize,
}

/// A row of `simulation.csv`: a policy under a load. `docs/simulate.md` describes the columns.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[allow(missing_docs)]
pub struct SimulationRow {
    #[serde(flatten)]
    pub config: SimulationConfig,
    pub rate: Option<f64>,
    pub clients: Option<usize>,
    pub max_batch: usize,
    pub requests: usize,
    pub repeats: usize,
    pub tokens_per_second: f64,
    pub throughput: f64,
    pub throughput_lo: Option<f64>,
    pub throughput_hi: Option<f64>,
    pub ms_per_token: f64,
    pub speedup: f64,
    pub speedup_lo: Option<f64>,
    pub speedup_hi: Option<f64>,
    pub ms_per_token_p50: f64,
    pub ms_per_token_p95: f64,
    pub ms_per_token_p99: f64,
    pub first_token_ms_p50: f64,
    pub first_token_ms_p95: f64,
    pub first_token_ms_p99: f64,
    pub latency_ms_p50: f64,
    pub latency_ms_p95: f64,
    pub latency_ms_p99: f64,
    pub batch: f64,
    pub busy: f64,
    pub tokens_per_round: f64,
    pub drafted_per_round: f64,
    pub acceptance_rate: Option<f64>,
}

/// A row of `requests.csv`: a request of a simulation. `docs/simulate.md` describes the columns.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[allow(missing_docs)]
pub struct RequestRow {
    #[serde(flatten)]
    pub config: SimulationConfig,
    pub rate: Option<f64>,
    pub clients: Option<usize>,
    pub repeat: usize,
    pub request: usize,
    #[serde(with = "cell")]
    pub prompt: String,
    pub tokens: usize,
    pub arrived_ms: f64,
    pub prefilled_ms: f64,
    pub first_ms: f64,
    pub finished_ms: f64,
}

impl RequestRow {
    /// The rows of the repeats of a simulation, by request.
    pub fn all(
        config: &SimulationConfig,
        load: Arrivals,
        sequences: &[SimulatedSequence<'_>],
        repeats: &[ServedRun],
    ) -> Vec<Self> {
        let (rate, clients) = load.columns();
        let row = |(repeat, served): (usize, &ServedRequest)| Self {
            config: config.clone(),
            rate,
            clients,
            repeat,
            request: served.number,
            prompt: sequences[served.sequence].id.to_owned(),
            tokens: served.tokens,
            arrived_ms: served.arrived,
            prefilled_ms: served.prefilled,
            first_ms: served.first,
            finished_ms: served.finished,
        };
        let all = repeats.iter().enumerate();
        let all = all.flat_map(|(repeat, run)| run.requests.iter().map(move |own| (repeat, own)));
        let mut rows = all.map(row).collect::<Vec<_>>();
        rows.sort_by_key(|row| (row.repeat, row.request));
        rows
    }
}

/// The repeats of a simulation, and those of plain decoding with the same seeds.
#[derive(Debug, Clone, Copy)]
pub struct Served<'r> {
    /// How requests arrived.
    pub load: Arrivals,
    /// Maximum number of requests that shared a step.
    pub max_batch: usize,
    /// Plain decoding.
    pub plain: &'r [ServedRun],
    /// The policy.
    pub own: &'r [ServedRun],
}

impl SimulationRow {
    /// The row of a policy under a load.
    pub fn of(config: SimulationConfig, served: &Served<'_>) -> Self {
        let Served { load, max_batch, plain, own } = *served;
        let sum = |of: fn(&ServedRun) -> f64| own.iter().map(of).sum::<f64>();
        let tokens = sum(|run| run.tokens() as f64);
        let pairs = || plain.iter().zip(own);
        let throughput = Ratio::of(pairs().map(|(plain, own)| {
            let ((plain_tokens, plain_ms), (tokens, ms)) = (plain.under_load(), own.under_load());
            ([tokens, plain_ms], [ms, plain_tokens])
        }));
        let (loaded, loaded_ms) = own
            .iter()
            .map(ServedRun::under_load)
            .fold((0.0, 0.0), |(tokens, ms), next| (tokens + next.0, ms + next.1));
        let speedup =
            Ratio::of(pairs().map(|(plain, own)| ([plain.decode_ms()], [own.decode_ms()])));
        let ends = |ratio: &Ratio| ratio.interval().map(|i| (i.lo, i.hi)).unzip();
        let (throughput_lo, throughput_hi) = ends(&throughput);
        let (speedup_lo, speedup_hi) = ends(&speedup);
        let requests = || own.iter().flat_map(|run| &run.requests);
        let per_token =
            |served: &ServedRequest| (served.finished - served.prefilled) / served.tokens as f64;
        let token = TimeQuantiles::of(requests(), per_token);
        let first = TimeQuantiles::of(requests(), |served| served.first - served.arrived);
        let latency = TimeQuantiles::of(requests(), |served| served.finished - served.arrived);
        let (rounds, drafted) = (sum(|run| run.rounds as f64), sum(|run| run.drafted as f64));
        let accepted = sum(|run| run.accepted as f64);
        let (rate, clients) = load.columns();
        Self {
            config,
            rate,
            clients,
            max_batch,
            requests: requests().count(),
            repeats: own.len(),
            tokens_per_second: 1000.0 * loaded / loaded_ms,
            throughput: throughput.value().unwrap_or(1.0),
            throughput_lo,
            throughput_hi,
            ms_per_token: sum(ServedRun::decode_ms) / tokens,
            speedup: speedup.value().unwrap_or(1.0),
            speedup_lo,
            speedup_hi,
            ms_per_token_p50: token.p50,
            ms_per_token_p95: token.p95,
            ms_per_token_p99: token.p99,
            first_token_ms_p50: first.p50,
            first_token_ms_p95: first.p95,
            first_token_ms_p99: first.p99,
            latency_ms_p50: latency.p50,
            latency_ms_p95: latency.p95,
            latency_ms_p99: latency.p99,
            batch: rounds / sum(|run| run.steps as f64),
            busy: sum(|run| run.busy_ms) / sum(ServedRun::span_ms),
            tokens_per_round: tokens / rounds,
            drafted_per_round: drafted / rounds,
            acceptance_rate: (drafted > 0.0).then(|| accepted / drafted),
        }
    }
}
