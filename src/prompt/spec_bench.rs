//! Spec-Bench (Xia et al. 2024, arXiv:2401.07851), SPEED-Bench and MT-Bench (Zheng et al. 2023,
//! arXiv:2306.05685): one or more turns. Those of AIPerf are objects with a text.

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use super::{Asked, PromptFormat};

pub(super) const FORMAT: PromptFormat = PromptFormat {
    name: "Spec-Bench and MT-Bench",
    key: "turns",
    summary: "`turns`, one after the other",
    context: &[],
    read,
};

fn read(row: &Map<String, Value>) -> Result<Asked> {
    let turns = row["turns"].as_array().filter(|turns| !turns.is_empty());
    let texts = turns.and_then(|turns| {
        let text = |turn: &Value| turn.get("text").unwrap_or(turn).as_str().map(str::to_owned);
        turns.iter().map(text).collect::<Option<Vec<_>>>()
    });
    let turns = texts.context("\"turns\" is not a list of at least one text")?;
    Ok(Asked { turns, ..Asked::default() })
}
