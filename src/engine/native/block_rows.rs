//! The rows of a pass over blocks.

use super::cache::NativeCache;
use super::head_weights::HeadWeights;
use super::query_block::PassToken;
use crate::engine::decoder::BlockShape;
use crate::model::{BlockStart, Feed};

/// The tokens of a pass: of each sequence those of its context, then its block.
pub(super) struct BlockRows {
    pub tokens: Vec<Feed>,
    /// By token: which row it is of those of all contexts, or of all blocks.
    pub kinds: Vec<RowKind>,
    /// The places of the blocks' rows among all tokens.
    pub places: Vec<usize>,
    /// By layer, what the blocks' rows see: the first position, and the end as a prefix.
    sights: Vec<Vec<(usize, Feed)>>,
    /// Number of rows of a block.
    pub width: usize,
}

/// What a token is.
#[derive(Debug, Clone, Copy)]
pub(super) enum RowKind {
    Context(usize),
    Block(usize),
}

/// A pass of blocks.
#[derive(Clone, Copy)]
pub(super) struct BlockFront<'a> {
    pub rows: &'a BlockRows,
    /// By layer, the blocks' rows.
    pub seen: &'a [Vec<PassToken<'a>>],
    pub weights: &'a HeadWeights,
}

impl BlockRows {
    /// No tokens yet, of blocks of this shape.
    pub(super) fn new(shape: &BlockShape) -> Self {
        let sights = shape.sights.iter().map(|_| Vec::new()).collect();
        let (tokens, kinds, places) = (Vec::new(), Vec::new(), Vec::new());
        Self { tokens, kinds, places, sights, width: shape.rows }
    }

    /// Adds context tokens of a sequence, and its block, if that is wanted.
    pub(super) fn add(&mut self, shape: &BlockShape, context: &[Feed], block: Option<BlockStart>) {
        let known = self.tokens.len() - self.places.len();
        self.kinds.extend((known..known + context.len()).map(RowKind::Context));
        self.tokens.extend_from_slice(context);
        let Some(BlockStart { slot: start, position, .. }) = block else { return };
        for row in 0..shape.rows {
            let (slot, token) = (start + row, 0);
            let position = position + row;
            let feed = |prefix| Feed { token, slot, position, prefix, ancestors: Vec::new() };
            for (seen, sight) in self.sights.iter_mut().zip(&shape.sights) {
                let range = sight.range(row, start, shape.rows);
                seen.push((range.start, feed(range.end)));
            }
            self.kinds.push(RowKind::Block(self.places.len()));
            self.places.push(self.tokens.len());
            self.tokens.push(feed(start + shape.rows));
        }
    }

    /// By layer, the blocks' rows with what they see; `caches` are those of all tokens.
    pub(super) fn seen<'a>(&'a self, caches: &[&'a NativeCache]) -> Vec<Vec<PassToken<'a>>> {
        let of_layer = |sights: &'a Vec<(usize, Feed)>| {
            let rows = sights.iter().zip(&self.places);
            let row = |((from, feed), place): (&'a (usize, Feed), &usize)| PassToken {
                feed,
                cache: caches[*place],
                from: Some(*from),
            };
            rows.map(row).collect()
        };
        self.sights.iter().map(of_layer).collect()
    }
}
