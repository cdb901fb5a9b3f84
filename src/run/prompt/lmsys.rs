//! LMSYS-Chat-1M and WildChat: conversations of people with a model. The turns are those of
//! the user; the answers, which are another model's, are left out.

use anyhow::Result;
use serde_json::{Map, Value};

use super::messages::all;
use super::{Asked, PromptFormat};

pub(super) const FORMAT: PromptFormat = PromptFormat {
    name: "LMSYS-Chat-1M and WildChat",
    key: "conversation",
    summary: "what `user` says in `conversation`, one turn after the other",
    context: &[],
    read,
};

fn read(row: &Map<String, Value>) -> Result<Asked> {
    let mut asked = Asked::default();
    for message in all(row, FORMAT.key)? {
        match message.role.as_str() {
            "user" => asked.turns.push(message.content().to_owned()),
            "system" => asked.opening.push(message),
            _ => {}
        }
    }
    Ok(asked)
}
