//! What `specdec simulate` prints: the fastest policy under each load first.

use std::fmt::Write;

use anyhow::Result;

use crate::io::shown::{self, count};
use crate::tapes::simulation::SimulationRow;

pub(super) fn simulation_text(rows: &[SimulationRow]) -> Result<String> {
    let mut text = String::new();
    let settings = |row: &SimulationRow| (row.config.sampling.clone(), row.config.drafter.clone());
    for group in rows.chunk_by(|a, b| settings(a) == settings(b)) {
        let config = &group[0].config;
        let model =
            if config.draft.is_empty() { String::new() } else { format!(" {}", config.draft) };
        let drafter = shown::line(&format!("{}{model}", config.drafter));
        writeln!(text, "{}, {drafter}, {}:", config.sampling.words(), config.verifier)?;
        let loads = || group.chunk_by(|a, b| (a.rate, a.clients) == (b.rate, b.clients));
        for rows in loads() {
            writeln!(text, "{}", sentence(rows))?;
        }
        writeln!(text, "\n{HEAD}")?;
        for rows in loads() {
            for row in rows {
                writeln!(text, "{}", line(row))?;
            }
        }
        writeln!(text)?;
    }
    Ok(text)
}

const HEAD: &str = "load          policy             K  tokens/s  throughput         speedup            \
                    ms per token: median, p95, p99  first token p95  batch  \
                    tokens per round of drafted + 1";

fn load(row: &SimulationRow) -> String {
    match (row.rate, row.clients) {
        (Some(rate), _) if rate.is_infinite() => "all at once".to_owned(),
        (Some(rate), _) => format!("{rate} per s"),
        (None, clients) => count(clients.unwrap_or(1), "client"),
    }
}

/// The best policy under a load. At a finite rate of requests, all policies that keep up have the
/// same throughput, so times per token decide.
fn sentence(rows: &[SimulationRow]) -> String {
    let open = rows[0].rate.is_some_and(f64::is_finite);
    let gain = |row: &SimulationRow| if open { row.speedup } else { row.throughput };
    let best = rows.iter().max_by(|a, b| gain(a).total_cmp(&gain(b)));
    let Some(best) = best else { return String::new() };
    let what = if open { "time per token" } else { "throughput" };
    let (lo, hi) = if open {
        (best.speedup_lo, best.speedup_hi)
    } else {
        (best.throughput_lo, best.throughput_hi)
    };
    let load = load(&rows[0]);
    if gain(best) <= 1.0 {
        return format!("{load}: no policy is faster than plain decoding");
    }
    let ends = lo.zip(hi).map(|(lo, hi)| format!(" [{lo:.2}, {hi:.2}]")).unwrap_or_default();
    let times = gain(best);
    format!("{load}: the fastest is {}, {times:.2}{ends} times, by {what}", best.config.policy)
}

fn line(row: &SimulationRow) -> String {
    let ratio = |value: f64, lo: Option<f64>, hi: Option<f64>| {
        let ends = lo.zip(hi).map(|(lo, hi)| format!(" [{lo:.2}, {hi:.2}]"));
        format!("{value:.2}{}", ends.unwrap_or_default())
    };
    let k = row.config.num_speculative_tokens;
    format!(
        "{:12}  {:16}  {:>2}  {:>8.0}  {:17}  {:17}  {:>8.2} {:>8.2} {:>8.2}  {:>20.1}  {:>5.1}  \
         {:.2} of {:.2}",
        load(row),
        row.config.policy,
        if k == 0 { "-".to_owned() } else { k.to_string() },
        row.tokens_per_second,
        ratio(row.throughput, row.throughput_lo, row.throughput_hi),
        ratio(row.speedup, row.speedup_lo, row.speedup_hi),
        row.ms_per_token_p50,
        row.ms_per_token_p95,
        row.ms_per_token_p99,
        row.first_token_ms_p95,
        row.batch,
        row.tokens_per_round,
        row.drafted_per_round + 1.0,
    )
}
