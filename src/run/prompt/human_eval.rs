//! HumanEval (Chen et al. 2021, arXiv:2107.03374): the head of a function to complete.

use super::fields::text;
use super::{Asked, PromptFormat};

pub(super) const FORMAT: PromptFormat = PromptFormat {
    name: "HumanEval",
    key: "entry_point",
    summary: "`prompt`",
    context: &[],
    read: |row| Ok(Asked::once(text(row, "prompt")?)),
};
