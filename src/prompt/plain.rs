//! Our own rows: a text to continue.

use super::fields::text;
use super::{Asked, PromptFormat};

pub(super) const FORMAT: PromptFormat = PromptFormat {
    name: "specdec",
    key: "prompt",
    summary: "`prompt`",
    context: &[],
    read: |row| Ok(Asked::once(text(row, "prompt")?)),
};
