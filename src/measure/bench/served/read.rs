//! Results of other benchmarks, and of earlier ones of this program, as samples.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::ServedSample;
use crate::core::error::Error;
use crate::io::input::open_stream;

/// The results of a program.
struct ResultsFormat {
    name: &'static str,
    /// The key that marks them.
    key: &'static str,
    read: fn(&Value) -> Option<ServedSample>,
}

const VLLM: ResultsFormat =
    ResultsFormat { name: "vllm bench serve", key: "median_itl_ms", read: vllm };

/// All formats; the first whose key an object has reads it.
const FORMATS: [ResultsFormat; 3] = [
    VLLM,
    ResultsFormat { name: "GuideLLM", key: "metrics", read: guide_llm },
    ResultsFormat { name: "AIPerf", key: "inter_token_latency", read: ai_perf },
];

/// The samples in a file: a table of `specdec bench --url --csv`, or the JSON of `vllm bench serve`
/// and `vllm bench sweep`, GuideLLM or AIPerf.
///
/// # Errors
/// If the file cannot be read, is none of these, or lacks what a round's time follows from.
pub fn read_served(path: &Path) -> Result<Vec<ServedSample>> {
    let mut text = String::new();
    let opened = open_stream(path).map_err(|error| Error::file(path, error))?;
    let place = || path.display().to_string();
    opened.take(MOST_BYTES).read_to_string(&mut text).with_context(place)?;
    let samples = match text.trim_start().chars().next() {
        Some('{' | '[') => json(&text).with_context(place)?,
        _ => table(&text).with_context(place)?,
    };
    if samples.is_empty() {
        bail!("{} has no measured setting", path.display());
    }
    let server = path.file_name().unwrap_or_default().to_string_lossy();
    let named = |sample: ServedSample| match sample.server.is_empty() {
        true => ServedSample { server: server.to_string(), ..sample },
        false => sample,
    };
    Ok(samples.into_iter().map(named).collect())
}

/// The largest file that is read.
const MOST_BYTES: u64 = 1 << 30;

fn table(text: &str) -> Result<Vec<ServedSample>> {
    let mut samples = Vec::new();
    for (number, row) in csv::Reader::from_reader(text.as_bytes()).deserialize().enumerate() {
        let place = || format!("row {}", number + 1);
        samples.push(row.with_context(place).and_then(checked).with_context(place)?);
    }
    Ok(samples)
}

fn json(text: &str) -> Result<Vec<ServedSample>> {
    let mut samples = Vec::new();
    // A sweep has a value per line.
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let value = value.context("it is not JSON")?;
        let runs = value.get("benchmarks").unwrap_or(&value);
        let runs = runs.as_array().map_or_else(|| vec![runs], |all| all.iter().collect());
        for (number, run) in runs.into_iter().enumerate() {
            let place = || format!("result {}", number + 1);
            samples.push(result(run).with_context(place)?);
        }
    }
    Ok(samples)
}

fn result(run: &Value) -> Result<ServedSample> {
    // AIPerf's older files have their metrics one level below.
    let run = run.get("records").unwrap_or(run);
    let Some(format) = FORMATS.iter().find(|format| run.get(format.key).is_some()) else {
        let keys = FORMATS.map(|format| format!("\"{}\" ({})", format.key, format.name));
        bail!("it has none of {}", keys.join(", "));
    };
    if format.key != VLLM.key && drafts(run) {
        bail!(
            "this server drafted, and times of {} are per token, not per round: read results of \
             plain decoding from it",
            format.name
        );
    }
    let found = (format.read)(run).with_context(|| {
        format!(
            "these results of {} lack the concurrency, the lengths of prompts and completions, or \
             the time of a round",
            format.name
        )
    });
    checked(found?)
}

fn checked(sample: ServedSample) -> Result<ServedSample> {
    let positive = |x: f64| x.is_finite() && x > 0.0;
    let known = |x: f64| x.is_finite() && x >= 0.0;
    if sample.batch == 0 || !positive(sample.round_ms) {
        bail!(
            "batch = {}, round_ms = {}: allowed are numbers above 0",
            sample.batch,
            sample.round_ms
        );
    }
    if ![sample.drafted, sample.context, sample.tokens_per_s, sample.first_ms]
        .into_iter()
        .all(known)
    {
        bail!("drafted, context, tokens_per_s and first_ms must be finite numbers >= 0");
    }
    Ok(sample)
}

/// Whether the results say what drafts gave.
fn drafts(run: &Value) -> bool {
    run.as_object().is_some_and(|run| run.keys().any(|key| key.starts_with("spec_decode")))
}

/// A server emits the tokens of a round at once, so the time between two chunks is that of a round.
fn vllm(run: &Value) -> Option<ServedSample> {
    let number = |key: &str| run.get(key).and_then(Value::as_f64);
    let completed = number("completed").filter(|count| *count > 0.0)?;
    let lengths = [number("total_input_tokens")?, number("total_output_tokens")?];
    let drafted = match drafts(run) {
        true => number("spec_decode_draft_tokens")? / number("spec_decode_num_drafts")?,
        false => 0.0,
    };
    Some(ServedSample {
        batch: number("max_concurrency")? as usize,
        round_ms: number("median_itl_ms")?,
        tokens_per_s: number("output_throughput")?,
        first_ms: number("median_ttft_ms").unwrap_or_default(),
        ..sample(lengths.map(|length| length / completed), drafted)
    })
}

/// Its times are per token, so a file of a server that drafts shows no rounds.
fn guide_llm(run: &Value) -> Option<ServedSample> {
    let metrics = run.get("metrics")?;
    let part = |key: &str, part: &str| metrics.get(key)?.get("successful")?.get(part)?.as_f64();
    let lengths = [part("prompt_token_count", "mean")?, part("output_token_count", "mean")?];
    Some(ServedSample {
        batch: part("request_concurrency", "mean")?.round() as usize,
        round_ms: part("inter_token_latency_ms", "median")?,
        tokens_per_s: part("output_tokens_per_second", "mean")?,
        first_ms: part("time_to_first_token_ms", "median").unwrap_or_default(),
        ..sample(lengths, 0.0)
    })
}

fn ai_perf(run: &Value) -> Option<ServedSample> {
    let part = |key: &str, part: &str| run.get(key)?.get(part)?.as_f64();
    let mean = |key: &str| part(key, "avg");
    let lengths = [mean("input_sequence_length")?, mean("output_sequence_length")?];
    // Requests that are being answered: those that begin per second times what one takes.
    let in_flight = || Some(mean("request_throughput")? * mean("request_latency")? / 1e3);
    let stated = run.get("input_config").and_then(|config| config.get("loadgen"));
    let stated = stated.and_then(|load| load.get("concurrency")).and_then(Value::as_f64);
    let per_token = part("inter_token_latency", "p50").or_else(|| mean("inter_token_latency"))?;
    Some(ServedSample {
        batch: stated.or_else(in_flight)?.round() as usize,
        round_ms: per_token,
        tokens_per_s: mean("output_token_throughput")?,
        first_ms: part("time_to_first_token", "p50").unwrap_or_default(),
        ..sample(lengths, 0.0)
    })
}

/// The lengths of a setting, whose requests are half done on average.
fn sample([prompt, completion]: [f64; 2], drafted: f64) -> ServedSample {
    ServedSample {
        prompt: prompt.round() as usize,
        context: prompt + completion / 2.0,
        k: drafted.ceil() as usize,
        drafted,
        ..ServedSample::default()
    }
}
