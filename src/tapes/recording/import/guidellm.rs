//! The file of a benchmark by GuideLLM, which keeps what the server reports of each request.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::logged::list;

/// A request of a file.
pub(super) struct BenchmarkedRequest {
    /// Where it is.
    pub place: String,
    /// Its benchmark: requests of two are not compared.
    pub benchmark: String,
    /// The request and the response.
    pub exchange: Value,
}

/// The successful requests of all benchmarks; `None` if it is no such file.
pub(super) fn requests(file: &Value) -> Option<Result<Vec<BenchmarkedRequest>>> {
    let benchmarks = file.get("benchmarks")?.as_array()?.iter().enumerate();
    let of = |(number, benchmark)| of_benchmark(&format!("benchmark {number}"), benchmark);
    Some(
        benchmarks
            .map(of)
            .collect::<Result<Vec<_>>>()
            .map(|all| all.into_iter().flatten().collect()),
    )
}

fn of_benchmark(name: &str, benchmark: &Value) -> Result<Vec<BenchmarkedRequest>> {
    let records = benchmark.get("requests").unwrap_or(&Value::Null);
    let records = list(records, "successful").with_context(|| format!("{name}, requests"))?;
    let of = |(number, record): (usize, &Value)| {
        let place = format!("{name}, request {number}");
        let exchange = exchange(record).with_context(|| place.clone())?;
        Ok(BenchmarkedRequest { place, benchmark: name.to_owned(), exchange })
    };
    records.iter().enumerate().map(of).collect()
}

fn exchange(record: &Value) -> Result<Value> {
    let metrics = record.get("response_metrics").unwrap_or(&Value::Null);
    metrics.get("speculative_decoding").context(
        "it has no \"response_metrics.speculative_decoding\", where GuideLLM 0.8.1 and later keep \
         the rounds that vLLM reports with --per-request-spec-decode-metrics detailed",
    )?;
    // The arguments are JSON in a string.
    let asked = record.get("request_args").and_then(Value::as_str).unwrap_or("null");
    let asked = serde_json::from_str::<Value>(asked).context("\"request_args\" is no JSON")?;
    Ok(json!({
        "request": asked["body"],
        "response": {
            "metrics": metrics,
            "usage": {"completion_tokens": record.get("output_tokens")},
        },
    }))
}
