//! The pass of a block: context tokens are stored as keys and values, and the rows of the block pass
//! through the layers.
#![allow(unsafe_code)] // parts of shared buffers; each access states its reason

use super::attention::Attention;
use super::block_rows::{BlockFront, RowKind};
use super::elementwise::Normed;
use super::pass::{Hand, Pass, Place};
use super::query_block::RowGroup;
use super::weights::LayerWeights;
use crate::engine::pool::Away;
use crate::model::Tap;

impl Hand<'_, '_> {
    /// Runs this thread's part of a pass over blocks.
    pub(super) fn run_blocks(&mut self, front: BlockFront<'_>) -> Result<(), Away> {
        let Pass { net, space, rows, tokens, wanted, .. } = self.pass;
        self.fuse(front)?;
        for (number, layer) in net.layers.iter().enumerate() {
            self.pack_tokens(front, layer)?;
            self.store(
                net.with(&layer.qkv),
                tokens.len(),
                &space.qkv,
                net.config.qkv_width(number),
            )?;
            self.store_keys(number)?;
            if rows == 0 {
                continue;
            }
            self.attend_blocks(number, front)?;
            self.pack(&space.mixed, &[], &layer.output, rows, |row| front.rows.places[row])?;
            self.add(&layer.output, None)?;
            self.feed_forward(number, layer)?;
        }
        self.tap(Tap::Normed)?;
        if wanted.is_empty() { Ok(()) } else { self.head() }
    }

    /// Fuses the features of context tokens.
    fn fuse(&mut self, BlockFront { rows, weights, .. }: BlockFront<'_>) -> Result<(), Away> {
        let Pass { net, space, .. } = self.pass;
        let contexts = rows.tokens.len() - rows.places.len();
        let Some(fc) = weights.fc.as_ref().filter(|_| contexts > 0) else { return Ok(()) };
        let (width, eps) = (net.config.hidden, net.config.norm_eps);
        self.pack(&space.features, &[], fc, contexts, |row| row)?;
        self.store(net.with(fc), contexts, &space.states, width)?;
        let Some(norm) = &weights.context_norm else { return Ok(()) };
        self.worker.share(contexts, |row| {
            // SAFETY: each row is one piece.
            let x = unsafe { space.states.write(row * width..(row + 1) * width) };
            net.isa.run(Normed { x, weights: norm, eps });
        })
    }

    /// Packs all tokens for queries, keys and values: the context as it was fused, and the blocks'
    /// rows after the layer's norm.
    fn pack_tokens(&mut self, front: BlockFront<'_>, layer: &LayerWeights) -> Result<(), Away> {
        let Pass { space, tokens, .. } = self.pass;
        let norm = layer.norms[0].as_deref();
        let to = |row| Place { linear: &layer.qkv, from: 0, row: (row, tokens.len()) };
        self.pack_from(tokens.len(), to, |token| match front.rows.kinds[token] {
            RowKind::Context(row) => (&space.states, &[], row),
            RowKind::Block(row) => (&space.x, norm.as_slice(), row),
        })
    }

    /// Stores keys and values of all tokens.
    fn store_keys(&mut self, layer: usize) -> Result<(), Away> {
        let (groups, heads) =
            (self.pass.attention(layer), self.pass.net.config.heads_of(layer).keys);
        self.worker.share(groups.len() * heads, |piece| {
            // SAFETY: each head of a group is one piece; no other piece writes or reads its
            // projections and its own slots, and nobody writes to shared slots.
            unsafe { groups[piece / heads].store(piece % heads) };
        })
    }

    /// Computes the attention of the blocks' rows, whose keys and values are stored.
    fn attend_blocks(&mut self, layer: usize, front: BlockFront<'_>) -> Result<(), Away> {
        let sizes = self.pass.net.config.heads_of(layer);
        let heads = sizes.queries / sizes.keys;
        let blocks = front.seen[layer].chunks_exact(front.rows.width);
        let groups = blocks.zip(front.rows.places.chunks_exact(front.rows.width));
        let groups = groups.map(|(rows, places)| {
            self.pass.attention_of(layer, RowGroup { first: places[0], rows, heads, window: None })
        });
        let groups = groups.collect::<Vec<Attention<'_>>>();
        let parts = groups.iter().enumerate();
        let parts = parts.flat_map(|(at, group)| (0..group.group.blocks()).map(move |b| (at, b)));
        let parts = parts.collect::<Vec<_>>();
        let scratch = &mut *self.scratch;
        self.worker.share(parts.len() * sizes.keys, |piece| {
            let (group, block) = parts[piece % parts.len()];
            // SAFETY: each block of a head is one piece; no thread writes to projections or cache in
            // this step.
            unsafe { groups[group].attend(piece / parts.len(), block, scratch) };
        })
    }
}
