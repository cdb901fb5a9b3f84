//! Requests of which the rounds are known, from the log of any engine.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::logged::{LoggedRounds, RequestRounds, count, exchange, ids, text};
use super::rounds::rounds;
use super::{acceptance, guidellm, lines, named, own_run, scored};
use crate::io::input::open_stream;
use crate::tapes::recording::read_tape_file;

/// The requests of a results folder, a tape with logs or scores, or a log with JSON values: records
/// of vLLM, SGLang, TensorRT-LLM, llama.cpp, AIPerf, GuideLLM, and those of the same shapes. Drafts
/// of scores have `k` tokens.
///
/// # Errors
/// If the file cannot be read, or a value has no rounds; names the line.
pub fn read_requests(path: &Path, k: usize) -> Result<Vec<RequestRounds>> {
    if path.is_dir() {
        return own_run::read_logs(path);
    }
    if is_tape(path)? {
        let tape = read_tape_file(path)?;
        if tape.logs.is_empty() {
            return scored::requests(&tape, k).with_context(|| path.display().to_string());
        }
        return Ok(tape
            .logs
            .into_iter()
            .map(|log| RequestRounds::of_log(log, String::new()))
            .collect());
    }
    let mut requests = Vec::new();
    for (place, line) in lines(path)? {
        let Some(benchmarked) = guidellm::requests(&line) else {
            requests.push(request(&line).with_context(|| place)?);
            continue;
        };
        for own in benchmarked.with_context(|| path.display().to_string())? {
            let place = || format!("{}, {}", path.display(), own.place);
            let found = request(&own.exchange).with_context(place)?;
            requests.push(RequestRounds { group: own.benchmark, ..found });
        }
    }
    if requests.is_empty() {
        bail!("{} is empty", path.display());
    }
    Ok(requests)
}

fn is_tape(path: &Path) -> Result<bool> {
    let mut first = Vec::new();
    let cannot = || format!("cannot read {}", path.display());
    let file = open_stream(path).with_context(cannot)?;
    file.take(16).read_to_end(&mut first).with_context(cannot)?;
    Ok(first.starts_with(b"{\"tape\":") || first.starts_with(b"PAR1"))
}

/// The rounds of a record, which must have some.
fn request(line: &Value) -> Result<RequestRounds> {
    request_rounds(line)?.context(
        "it has no rounds: neither per_step_accepted nor acceptance_histogram, spec_verify_ct \
         (SGLang), avg_decoded_tokens_per_iter (TensorRT-LLM) or timings.draft_n (llama.cpp)",
    )
}

/// The rounds of a record, or of a response; `None` if it has none.
///
/// # Errors
/// If its numbers contradict each other.
pub fn request_rounds(line: &Value) -> Result<Option<RequestRounds>> {
    let (asked, response) = exchange(line);
    let usage = |name: &str| count(response.get("usage").and_then(|usage| usage.get(name)));
    let vllm = response.get("metrics").and_then(|all| all.get("speculative_decoding"));
    let record = acceptance::record(line);
    let found = match vllm.map(rounds).transpose()?.flatten() {
        Some(own) => Some(own),
        None => rounds(record)?,
    };
    let mut own = match found {
        Some(found) => of_steps(found),
        None => match sums(response) {
            Some([tokens, rounds]) => {
                RequestRounds { tokens, rounds: rounds as f64, ..Default::default() }
            }
            None => return Ok(None),
        },
    };
    let number =
        |names: &[&str]| names.iter().find_map(|name| count(line.get(name).or(record.get(name))));
    let stated = usage("completion_tokens")
        .or_else(|| number(&["output_sequence_length", "completion_tokens", "output_tokens"]));
    // Every round emits its accepted tokens and one more.
    let emitted = own.steps.iter().map(|step| step.accepted + 1).sum::<usize>();
    own.tokens = stated.filter(|tokens| *tokens > 0).unwrap_or(own.tokens.max(emitted));
    if own.rounds == 0.0 || own.tokens == 0 {
        bail!("it has {} rounds and {} tokens", own.rounds, own.tokens);
    }
    own.prompt = prompt(asked, response, line)?;
    own.category = text(line.get("category")).unwrap_or_default();
    Ok(Some(own))
}

fn of_steps(found: LoggedRounds) -> RequestRounds {
    RequestRounds {
        tokens: found.tokens,
        rounds: found.rounds.len() as f64,
        ordered: !found.unordered,
        drafted_known: found.drafted_known,
        steps: found.rounds,
        ..RequestRounds::default()
    }
}

/// Tokens and rounds of a record that has only their sums.
fn sums(response: &Value) -> Option<[usize; 2]> {
    let part = |name: &str| response.get(name);
    // SGLang.
    let meta = part("meta_info").unwrap_or(response);
    if let Some(rounds) = count(meta.get("spec_verify_ct")) {
        return Some([count(meta.get("completion_tokens"))?, rounds]);
    }
    // llama.cpp: every token that was not accepted came from a round.
    if let Some(timings) = part("timings")
        && let Some(accepted) = count(timings.get("draft_n_accepted"))
    {
        let tokens = count(timings.get("predicted_n"))?;
        return Some([tokens, tokens.checked_sub(accepted)?]);
    }
    // TensorRT-LLM.
    let choice = part("choices").and_then(|choices| choices.get(0)).unwrap_or(response);
    let per_round = choice.get("avg_decoded_tokens_per_iter").and_then(Value::as_f64)?;
    let tokens = count(part("usage").and_then(|usage| usage.get("completion_tokens")))?;
    (per_round > 0.0).then(|| [tokens, (tokens as f64 / per_round).round() as usize])
}

/// What names the prompt of a request: its tokens, its text, or the id that a benchmark gave it. The
/// id of a response is another one in every run.
fn prompt(asked: &Value, response: &Value, line: &Value) -> Result<String> {
    let tokens = [asked.get("prompt"), asked.get("input_ids"), response.get("prompt_token_ids")];
    for tokens in tokens {
        if let Some(tokens) = ids(tokens)? {
            return Ok(named(&tokens));
        }
    }
    let texts = [asked.get("prompt"), asked.get("text")];
    let texts = texts.into_iter().find_map(text);
    let messages = asked.get("messages").map(Value::to_string);
    if let Some(text) = texts.or(messages) {
        return Ok(text);
    }
    let places = [Some(line), line.get("metadata")];
    let keys = ["prompt_id", "question_id", "custom_id", "conversation_id", "session_num"];
    let ids = places.into_iter().flatten().flat_map(|place| keys.map(|key| place.get(key)));
    let id = ids.flatten().find(|id| !id.is_null());
    Ok(id.map(Value::to_string).unwrap_or_default())
}
