//! What a drafter computes in one pass: the rows of a whole draft.

use super::Feed;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::Logits;

/// What a pass computes of a block.
#[derive(Debug, Clone, Default)]
pub struct Block {
    /// The logits of every depth.
    pub logits: Vec<Logits>,
    /// Numbers that later rows read, depth by depth; none if they read nothing.
    pub states: Vec<f32>,
}

/// A block with the context that it continues.
#[derive(Debug, Clone)]
pub(super) struct BlockAfter {
    pub(super) context: Vec<Token>,
    pub(super) block: Block,
}

/// A row of a block: the one after a path of drafted tokens.
#[derive(Debug, Clone)]
pub struct BlockRow<'b> {
    /// The block.
    pub block: &'b Block,
    /// The last committed token and the drafted ones; the depth is the number of the latter.
    pub path: Vec<Token>,
}

/// The prediction at a row of a block.
#[derive(Debug, Clone)]
pub struct BlockPrediction {
    /// The logits of the token after the path.
    pub logits: Logits,
    /// The probability, as the drafter estimates it before the token is drawn, that it will be
    /// accepted if those before it are.
    pub confidence: Option<f64>,
}

/// What a drafter of blocks must compute of a sequence.
#[derive(Debug, Default)]
pub struct BlockStep {
    /// The committed tokens that enter the context, ascending by slot.
    pub feed: Vec<Feed>,
    /// Their features, row by row.
    pub features: Vec<f32>,
    /// The block, if it is wanted.
    pub block: Option<BlockStart>,
}

/// Where a block begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockStart {
    /// The last committed token.
    pub anchor: Token,
    /// The slot of its row.
    pub slot: usize,
    /// Its position.
    pub position: usize,
}

impl BlockAfter {
    /// Whether it is the block after this context.
    pub(super) fn is_after(&self, context: &[Token]) -> bool {
        self.context == context
    }
}

impl Block {
    /// Number of numbers that a row of each depth reads.
    pub fn states_at(&self, depth: usize) -> &[f32] {
        let width = self.states.len() / self.logits.len().max(1);
        &self.states[depth * width..(depth + 1) * width]
    }
}

impl BlockRow<'_> {
    /// The number of drafted tokens before the row.
    pub fn depth(&self) -> usize {
        self.path.len() - 1
    }

    /// The logits of its depth.
    ///
    /// # Errors
    /// If the block is narrower.
    pub fn logits(&self) -> Result<&Logits, Error> {
        self.block.logits.get(self.depth()).ok_or_else(|| {
            let width = self.block.logits.len();
            Error::engine(format!("a block of {width} rows drafts no token {}", self.path.len()))
        })
    }
}
