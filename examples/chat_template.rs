//! Renders a chat template, for `experiments/95-chat-templates`.
//!
//! Standard input holds one request per line, as a JSON object: `values` for the template,
//! the day `today`, and, if the contents are to be told from control tokens, `controls`, the
//! names of these. Each line of the output is a JSON object: `text`, or `refused` with a
//! sentence. With `controls` it has `parts`, too: the parts of the text, each with whether it
//! is a control token.
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
use specdec::model::{ChatDate, ChatMessage, ChatTemplate, ChatText, Conversation};

/// One line of the input.
#[derive(Deserialize)]
struct Asked {
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
    let template = |tokens| ChatTemplate::new(Path::new("template"), &source, tokens);
    for line in io::stdin().lock().lines() {
        let asked = serde_json::from_str::<Asked>(&line?)?;
        let today = asked.today.as_deref().map(str::parse::<ChatDate>).transpose()?;
        let answer = match &asked.controls {
            None => template(Map::new())
                .and_then(|template| template.render(&asked.values, today))
                .map(|text| json!({ "text": text })),
            Some(controls) => {
                let controls = controls.iter().map(String::as_str).collect::<Vec<_>>();
                let messages =
                    serde_json::from_value::<Vec<ChatMessage>>(asked.values["messages"].clone())?;
                let conversation = Conversation { messages, today };
                let tokens = asked.values.iter().filter(|(key, _)| key.ends_with("_token"));
                let tokens = tokens.map(|(key, value)| (key.clone(), value.clone())).collect();
                template(tokens)
                    .and_then(|t| t.prompt(&conversation, &controls))
                    .map(|ChatText { text, plain }| json!({ "text": text, "plain": plain }))
            }
        };
        let answer = answer.unwrap_or_else(|why| json!({ "refused": why.to_string() }));
        writeln!(io::stdout(), "{answer}")?;
    }
    Ok(())
}
