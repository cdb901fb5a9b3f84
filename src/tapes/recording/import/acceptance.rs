//! Records of acceptance per request, as AIPerf writes them for any engine.

use anyhow::{Context, Result};
use serde_json::Value;

use super::logged::{LoggedLine, LoggedRounds, count};
use super::rounds::rounds;
use super::{TapeFormat, TapeReader};

pub(super) const FORMAT: TapeFormat = TapeFormat {
    name: "acceptance",
    summary: "one record per request: per_step_accepted and per_step_drafted, or \
              acceptance_histogram; for simulation alone",
    read: TapeReader::Lines(read),
};

/// Keys of a line that may hold the record; otherwise the line is the record.
const PLACES: [&str; 3] = ["spec_decode_acceptance", "spec_decode_metrics", "speculative_decoding"];

/// The record of a line.
pub(super) fn record(line: &Value) -> &Value {
    PLACES.iter().find_map(|place| line.get(place)).unwrap_or(line)
}

fn read(line: &Value) -> Result<LoggedLine> {
    let record = record(line);
    let found = rounds(record)?.context(
        "it has neither \"per_step_accepted\" nor \"acceptance_histogram\" (for vLLM's answers, \
         use --format vllm)",
    )?;
    let number = |names: &[&str]| {
        let own = names.iter().find_map(|name| count(line.get(name).or(record.get(name))));
        own.unwrap_or_default()
    };
    let prompt_tokens = number(&["input_sequence_length", "prompt_tokens"]);
    let listed = line.get("token_ids").and_then(Value::as_array).map_or(0, Vec::len);
    let tokens = number(&["output_sequence_length", "completion_tokens"]).max(listed);
    Ok(LoggedLine {
        rounds: vec![LoggedRounds { prompt_tokens, tokens, ..found }],
        ..LoggedLine::default()
    })
}
