//! Alpaca (Taori et al. 2023) and Dolly (Conover et al. 2023): an instruction, and mostly something
//! to apply it to.

use super::fields::{optional, text};
use super::{Asked, PromptFormat};

pub(super) const FORMAT: PromptFormat = PromptFormat {
    name: "Alpaca and Dolly",
    key: "instruction",
    summary: "`instruction`, and `input` or `context` after an empty line, if there is any",
    context: &["input", "context"],
    read: |row| {
        let parts = [text(row, "instruction")?, optional(row, "input")?, optional(row, "context")?];
        let parts = parts.into_iter().enumerate().filter(|(i, part)| *i == 0 || !part.is_empty());
        Ok(Asked::once(parts.map(|(_, part)| part).collect::<Vec<_>>().join("\n\n")))
    },
};
