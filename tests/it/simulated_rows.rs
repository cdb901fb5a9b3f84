//! The rows of `simulation.csv` from requests whose times are known.

use specdec::core::params::Params;
use specdec::tapes::simulation::{
    Arrivals, Outlook, PolicyParams, RequestRow, Served, ServedRun, Server, ServerLimits,
    SimulatedSequence, SimulationConfig, SimulationRow, StepCosts, policies,
};
use specdec::tapes::tape::{AcceptanceRule, DraftPasses};

use crate::fixtures::near;
use crate::forecast_by_hand::same_row;
use crate::simulation::{odds, sequence, table};

/// Serves two completions of 40 tokens: drafts of the first are always accepted, those of the second
/// never. A pass takes 1 ms and 0.1 ms per further row, one of the draft model 0.25 ms, for any
/// number of requests.
fn served(name: &str, arrivals: Arrivals, requests: usize) -> ServedRun {
    let table = &table(&[("", 1, 1, 1, 1.0), ("", 11, 1, 1, 2.0), ("draft", 1, 1, 1, 0.25)]);
    let both = [1.0, 0.0].map(sequence);
    let sequences = both.iter().map(|own| odds(own, AcceptanceRule::Token));
    let sequences = &sequences.collect::<Vec<SimulatedSequence<'_>>>()[..];
    let outlook = &Outlook::of(sequences, DraftPasses::Each);
    let params = PolicyParams { outlook, table, k: 4, max_batch: 8, settings: &Params::default() };
    let mut policy = policies().find(|entry| entry.name == name).unwrap().build(&params).unwrap();
    let costs = StepCosts { table, passes: DraftPasses::Each };
    let limits = ServerLimits { max_batch: 8, step_rows: Some(2048) };
    Server { sequences, costs, limits }.serve(&mut *policy, arrivals, requests, 7)
}

fn row(plain: ServedRun, own: ServedRun, load: Arrivals) -> SimulationRow {
    let served = Served { load, max_batch: 8, plain: &[plain], own: &[own] };
    SimulationRow::of(SimulationConfig::default(), &served)
}

/// Catches: a ratio to plain decoding is upside down; first tokens do not wait for the prompt;
/// acceptance is per round; a quantile is another one; the time that is not spent decoding counts in
/// the speedup.
#[test]
fn a_row_has_the_numbers_of_a_hand_count() {
    let load = Arrivals::Clients(1);
    let (plain, own) = (served("plain", load, 2), served("fixed", load, 2));
    // The prompt takes a pass of 4 rows and a quarter of its time for the draft model. Drafts of 4
    // tokens take 2.4 ms with their pass: 8 rounds, or 36 and shorter ones up to the end.
    let (prompt, round) = (1.3 * 1.25, 2.4);
    let (short, long) = (8.0 * round, 36.0 * round + 2.05 + 1.7 + 1.35 + 1.0);
    // The client sends its second request when the first is done; until then it is under load.
    let first = [short, long][own.requests[0].sequence];
    let throughput = (40.0 / (prompt + first)) / (40.0 / (prompt + 40.0));
    let between = |a: f64, b: f64, level: f64| a + level * (b - a);
    let (token, latency) = ((short / 40.0, long / 40.0), (prompt + short, prompt + long));
    let expected = SimulationRow {
        clients: Some(1),
        max_batch: 8,
        requests: 2,
        repeats: 1,
        tokens_per_second: 40_000.0 / (prompt + first),
        throughput,
        ms_per_token: (short + long) / 80.0,
        speedup: 80.0 / (short + long),
        ms_per_token_p50: between(token.0, token.1, 0.5),
        ms_per_token_p95: between(token.0, token.1, 0.95),
        ms_per_token_p99: between(token.0, token.1, 0.99),
        first_token_ms_p50: prompt + round,
        first_token_ms_p95: prompt + round,
        first_token_ms_p99: prompt + round,
        latency_ms_p50: between(latency.0, latency.1, 0.5),
        latency_ms_p95: between(latency.0, latency.1, 0.95),
        latency_ms_p99: between(latency.0, latency.1, 0.99),
        batch: 1.0,
        busy: 1.0,
        tokens_per_round: 80.0 / 48.0,
        drafted_per_round: (32.0 + 150.0) / 48.0,
        acceptance_rate: Some(32.0 / 182.0),
        ..SimulationRow::default()
    };
    same_row(&row(plain, own.clone(), load), &expected);
    let both = [1.0, 0.0].map(sequence);
    let sequences = both.iter().map(|own| odds(own, AcceptanceRule::Token)).collect::<Vec<_>>();
    let rows = RequestRow::all(&SimulationConfig::default(), load, &sequences, &[own]);
    let ends = [prompt + first, 2.0 * prompt + short + long];
    for (number, (found, begins)) in rows.iter().zip([0.0, ends[0]]).enumerate() {
        let expected = RequestRow {
            clients: Some(1),
            request: number,
            prompt: "toy".to_owned(),
            tokens: 40,
            arrived_ms: begins,
            prefilled_ms: begins + prompt,
            first_ms: begins + prompt + round,
            finished_ms: ends[number],
            ..RequestRow::default()
        };
        same_row(found, &expected);
    }
    assert_eq!(rows.len(), 2);
}

/// Catches: the batch is upside down; the time between requests counts as busy.
#[test]
fn requests_that_share_steps_are_a_batch_and_gaps_are_idle() {
    let load = Arrivals::Clients(2);
    let together = row(served("plain", load, 2), served("plain", load, 2), load);
    assert_eq!((together.batch, together.acceptance_rate), (2.0, None));
    near(together.busy, 1.0);
    let load = Arrivals::Rate(1.0);
    let (plain, own) = (served("plain", load, 1), served("plain", load, 1));
    let arrived = own.requests[0].arrived;
    let alone = row(plain, own, load);
    // The prompt and 40 steps, after the time until the request came.
    near(alone.busy, (1.3 * 1.25 + 40.0) / (arrived + 1.3 * 1.25 + 40.0));
    assert_eq!((alone.rate, alone.clients, alone.speedup), (Some(1.0), None, 1.0));
}
