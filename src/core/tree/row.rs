//! Rows, which assign predictions to nodes.

use super::{Draft, NodeId};
use crate::core::distribution::Token;

/// A row of logits, and of the distributions made from them: row 0 scores the token
/// after the context, row i + 1 the token after node i of the draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row(usize);

impl Row {
    /// The row that scores the token after the context.
    pub const CONTEXT: Self = Self(0);

    /// The row that scores the token after a node, or after the context for `None`.
    pub fn after(at: Option<NodeId>) -> Self {
        Self(at.map_or(0, |node| node + 1))
    }

    /// All rows of a draft, in order.
    pub fn all(draft: &Draft) -> impl Iterator<Item = Self> {
        (0..=draft.len()).map(Self)
    }

    /// The position of the row, from 0.
    pub fn number(self) -> usize {
        self.0
    }

    /// The drafted tokens between the context and the token that this row scores.
    pub fn drafted(self, draft: &Draft) -> Vec<Token> {
        self.0.checked_sub(1).map_or_else(Vec::new, |node| draft.tokens_to(node))
    }
}
