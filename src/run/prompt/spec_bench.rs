//! Spec-Bench (Xia et al. 2024, arXiv:2401.07851) and MT-Bench (Zheng et al. 2023,
//! arXiv:2306.05685): one or more turns. Those of AIPerf are objects with a text. SPEED-Bench
//! (Abramovich et al. 2026, arXiv:2604.09557) has turns, or, where they were prepared for a
//! server, a message of the user for each.

use anyhow::{Result, bail};
use serde_json::{Map, Value};

use super::fields::texts;
use super::messages::all;
use super::{Asked, PromptFormat};

pub(super) const FORMAT: PromptFormat = PromptFormat {
    name: "Spec-Bench and MT-Bench",
    key: "turns",
    summary: "`turns`, one after the other",
    context: &[],
    read: |row| Ok(Asked { turns: texts(row, "turns")?, ..Asked::default() }),
};

pub(super) const SPEED_BENCH: PromptFormat = PromptFormat {
    name: "SPEED-Bench",
    key: "multiturn",
    summary: "`turns`, or what `user` says in `messages`, one turn after the other",
    context: &[],
    read: speed_bench,
};

/// With which the rows on the Hugging Face hub begin whose text is that of another data set.
const PLACEHOLDER: &str = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE";

fn speed_bench(row: &Map<String, Value>) -> Result<Asked> {
    let asked = if row.contains_key("messages") {
        let (users, opening) =
            all(row, "messages")?.into_iter().partition::<Vec<_>, _>(|m| m.role == "user");
        let turns = users.iter().map(|message| message.content().to_owned()).collect();
        Asked { opening, turns, ..Asked::default() }
    } else {
        (FORMAT.read)(row)?
    };
    if asked.turns.iter().any(|turn| turn.starts_with(PLACEHOLDER)) {
        bail!(
            "the text is SPEED-Bench's placeholder for that of another data set: prepare the file \
             with SPEED-Bench's own program, which fetches the texts"
        );
    }
    Ok(asked)
}
