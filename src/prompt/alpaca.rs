//! Alpaca (Taori et al. 2023): an instruction, and mostly something to apply it to.

use serde_json::Value;

use super::fields::text;
use super::{Asked, PromptFormat};

pub(super) const FORMAT: PromptFormat = PromptFormat {
    name: "Alpaca",
    key: "instruction",
    summary: "`instruction`, and after an empty line `input` if there is any",
    read: |row| {
        let instruction = text(row, "instruction")?;
        let input = match row.get("input") {
            None | Some(Value::Null) => String::new(),
            Some(_) => text(row, "input")?,
        };
        Ok(Asked::once(match input.as_str() {
            "" => instruction,
            input => format!("{instruction}\n\n{input}"),
        }))
    },
};
