//! GSM8K (Cobbe et al. 2021, arXiv:2110.14168): a problem to solve.

use super::fields::text;
use super::{Asked, PromptFormat};

pub(super) const FORMAT: PromptFormat = PromptFormat {
    name: "GSM8K",
    key: "question",
    summary: "`question`",
    context: &[],
    read: |row| Ok(Asked::once(text(row, "question")?)),
};
