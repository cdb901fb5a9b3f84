//! OpenOrca (Lian et al. 2023): a question, mostly with a message of the system.

use super::fields::{system, text};
use super::{Asked, PromptFormat};

pub(super) const FORMAT: PromptFormat = PromptFormat {
    name: "OpenOrca",
    key: "system_prompt",
    summary: "`question`, after `system_prompt` as the system's message",
    context: &["system_prompt"],
    read: |row| {
        let opening = system(row, "system_prompt")?;
        Ok(Asked { opening, ..Asked::once(text(row, "question")?) })
    },
};
