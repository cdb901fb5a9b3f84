//! Renders a chat template, for `experiments/95-chat-templates`.
//!
//! Standard input holds one request per line, as a JSON object: `values` for the template, the day
//! `today` and, optionally, `controls`, the names of control tokens. Each line of the output is a
//! JSON object: `text`, or `refused` with a sentence. With `controls` it has `plain`, too: the
//! offsets in bytes of characters that keep strings from being control tokens.
//!
//! ```text
//! cargo run --release --example chat_template -- template.jinja < requests.jsonl
//! ```

use std::io::{self, BufRead as _, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use specdec::checkpoint::ChatTemplate;
use specdec::model::{ChatDate, ChatMessage, Conversation, read_tools};

/// One line of the input.
#[derive(Deserialize)]
struct RenderRequest {
    values: Map<String, Value>,
    today: Option<String>,
    controls: Option<Vec<String>>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(io::stderr(), "{why:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let file = std::env::args_os().nth(1).context("give a template")?;
    let source = std::fs::read_to_string(&file)?;
    for line in io::stdin().lock().lines() {
        let answer = answer(&source, serde_json::from_str(&line?)?)?;
        writeln!(io::stdout(), "{answer}")?;
    }
    Ok(())
}

fn answer(source: &str, asked: RenderRequest) -> Result<Value> {
    let today = asked.today.as_deref().map(str::parse::<ChatDate>).transpose()?;
    let (tokens, values): (Map<_, _>, Map<_, _>) =
        asked.values.into_iter().partition(|(key, _)| key.ends_with("_token"));
    let template = ChatTemplate::new(Path::new("template"), source, tokens);
    let answer = match asked.controls {
        None => template.and_then(|t| t.render(&values, today)).map(|text| json!({ "text": text })),
        Some(controls) => {
            let messages = values.get("messages").cloned().unwrap_or_default();
            let messages = serde_json::from_value::<Vec<ChatMessage>>(messages)?;
            let controls = controls.iter().map(String::as_str).collect::<Vec<_>>();
            let tools = read_tools(values.get("tools")).map_err(anyhow::Error::msg)?;
            let conversation = Conversation { messages, tools, today, ..Conversation::default() };
            let made = template.and_then(|t| t.prompt(&conversation, &controls));
            made.map(|chat| json!({ "text": chat.text, "plain": chat.plain }))
        }
    };
    Ok(answer.unwrap_or_else(|why| json!({ "refused": why.to_string() })))
}
