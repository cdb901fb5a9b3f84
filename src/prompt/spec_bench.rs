//! Spec-Bench (Xia et al. 2024, arXiv:2401.07851) and MT-Bench (Zheng et al. 2023,
//! arXiv:2306.05685): one or more turns.

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
        turns.iter().map(|turn| turn.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    });
    let turns = texts.context("\"turns\" is not a list of at least one text")?;
    Ok(Asked { turns, ..Asked::default() })
}
