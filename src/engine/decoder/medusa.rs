//! The shape of Medusa heads (Cai et al. 2024, arXiv 2401.10774).

use super::tensors::{Described, Tensors, weight};
use crate::engine::Dtype;

/// Heads that read the target's last state alone, one for each depth of a draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MedusaConfig {
    /// Width of the target's states.
    pub width: usize,
    /// Number of heads: the deepest draft.
    pub heads: usize,
    /// Blocks of each head.
    pub blocks: usize,
    /// Whether each head has a product to logits of its own; otherwise they share the target's head.
    pub own_heads: bool,
}

impl MedusaConfig {
    /// The product of a block, which adds a bias.
    pub(crate) fn block(&self, head: usize, block: usize) -> Described {
        (weight(&format!("{head}.{block}.linear")), vec![self.width; 2])
    }

    /// Its bias.
    pub(crate) fn bias(&self, head: usize, block: usize) -> Described {
        (format!("{head}.{block}.linear.bias"), vec![self.width])
    }

    /// A head's own product to the logits of `vocab` tokens.
    pub(crate) fn head(&self, head: usize, vocab: usize) -> Described {
        (weight(&format!("{head}.{}", self.blocks)), vec![vocab, self.width])
    }

    /// All matrices.
    pub(crate) fn tables(&self, vocab: usize) -> Vec<Described> {
        let mut tables = Vec::new();
        for head in 0..self.heads {
            tables.extend((0..self.blocks).map(|block| self.block(head, block)));
            tables.extend(self.own_heads.then(|| self.head(head, vocab)));
        }
        tables
    }

    /// Bytes of the matrices of one head.
    pub(crate) fn matrix_bytes(&self, vocab: usize, dtype: Dtype, tensors: &dyn Tensors) -> usize {
        let tables = self.tables(vocab).into_iter();
        let bytes =
            tables.map(|(name, shape)| dtype.bytes(shape[0], shape[1], tensors.kind(&name)));
        bytes.sum::<usize>() / self.heads
    }

    /// Names and shapes of all tensors.
    pub(crate) fn tensors(&self, vocab: usize) -> Vec<Described> {
        let mut all = self.tables(vocab);
        for head in 0..self.heads {
            all.extend((0..self.blocks).map(|block| self.bias(head, block)));
        }
        all
    }
}
