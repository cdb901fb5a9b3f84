//! Attention of some rows to the cache, one key-value head at a time.
//!
//! Sums over positions run in ascending logical order: first over the slots that several
//! sequences share, for all of them together, then over the own prefix that all rows of a
//! sequence attend to, then over each row's own tail. The result does not depend on where a
//! row's tokens lie in the cache, nor on who shares it.

#![allow(unsafe_code)] // parts of shared buffers; each access states its reason

use std::ops::Range;

use super::angles::RowAngles;
use super::attention_kernels::{Exponentials, Rotated, Tail};
use super::elementwise::{Capped, Normed};
use super::kv_store::Head;
use super::matrix::{CacheTiles, Chunk, Rows, Sums, in_groups};
use super::query_block::{OwnRows, PassToken, QueryBlock, RowGroup, sees};
use crate::core::lanes::{IsaKind, LANES};
use crate::engine::decoder::{Config, HeadSizes, KeySource};
use crate::engine::pool::Shared;

/// The attention of one layer in one pass, for a group of rows.
pub(super) struct Attention<'a> {
    pub isa: IsaKind,
    pub config: &'a Config,
    pub layer: usize,
    pub heads: HeadSizes,
    /// Numbers in a row of `qkv`.
    pub width: usize,
    pub keys: KeySource,
    /// The norms of every head of queries and of keys.
    pub head_norms: [Option<&'a [f32]>; 2],
    /// The norm of every head of values.
    pub value_norm: Option<&'a [f32]>,
    /// The sinks of query heads.
    pub sinks: Option<&'a [f32]>,
    pub group: RowGroup<'a>,
    /// Cosines and sines: for every row of the pass as many of each as pairs are rotated.
    pub angles: Option<&'a RowAngles>,
    /// Query, key and value heads of every row; queries and keys are normalised and
    /// rotated in place.
    pub qkv: &'a Shared<f32>,
    /// The attention output of every row: its weighted sums of values.
    pub mixed: &'a Shared<f32>,
}

/// Working memory of one thread.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// A row that is prepared for a product.
    pub row: Vec<f32>,
    pub sums: Sums,
    queries: Vec<Chunk>,
    scores: Vec<f32>,
    totals: Vec<f32>,
    weights: Vec<Chunk>,
    /// The sums over shared slots, as `[tile][query]`.
    shared: Sums,
    /// Those of one sequence, and what they have become.
    begun: Sums,
    mixed: Sums,
    /// Keys or values as f32, if the cache has blocks.
    wide: Vec<[f32; LANES]>,
}

impl Attention<'_> {
    /// The range of a query, key or value head of a row in `qkv`.
    fn place(&self, row: usize, head: usize) -> Range<usize> {
        let at = (self.group.first + row) * self.width + head * self.heads.width;
        at..at + self.heads.width
    }

    /// Normalises a head of a row if there is a norm, rotates it by its position, and
    /// scales it.
    ///
    /// # Safety
    /// As [`Shared::write`], for this head.
    unsafe fn prepare(
        &self,
        (row, head): (usize, usize),
        norm: Option<&[f32]>,
        scale: f32,
    ) -> &[f32] {
        // SAFETY: guaranteed by the caller.
        let x = unsafe { self.qkv.write(self.place(row, head)) };
        if let Some(weights) = norm {
            self.isa.run(Normed { x: &mut *x, weights, eps: self.config.norm_eps });
        }
        if let Some(angles) = self.angles {
            let (cos, sin) = angles.row(self.group.first + row);
            self.isa.run(Rotated { x: &mut x[..2 * cos.len()], cos, sin });
        }
        for x in x.iter_mut() {
            *x *= scale;
        }
        x
    }

    /// Prepares queries and keys of one key-value head for all rows and stores its keys
    /// and values, unless those of a layer below are attended to.
    ///
    /// # Safety
    /// No other thread may access this head.
    pub(super) unsafe fn store(&self, head: usize) {
        let attention_scale = self.config.attention_scale(self.layer);
        let (group, [query_norm, key_norm]) = (self.group.heads, self.head_norms);
        for (row, PassToken { feed, cache, .. }) in self.group.rows.iter().enumerate() {
            for query in head * group..(head + 1) * group {
                // SAFETY: the caller has exclusive access to the head.
                unsafe { self.prepare((row, query), query_norm, attention_scale) };
            }
            if let KeySource::Layer(_) = self.keys {
                continue;
            }
            let (cached, slot) = (cache.head(self.layer, head), feed.slot - cache.shared());
            // SAFETY: the caller has exclusive access to the head.
            unsafe {
                // Values may be keys before their norm.
                let value = self.value(row, head);
                let key = self.prepare((row, self.heads.queries + head), key_norm, 1.0);
                cached.put(slot, key, value);
            }
        }
    }

    /// The value of a head of a row, normalised and scaled where the model does that.
    ///
    /// # Safety
    /// As [`Shared::write`], for this head.
    unsafe fn value(&self, row: usize, head: usize) -> &[f32] {
        let HeadSizes { queries, keys, .. } = self.heads;
        // SAFETY: guaranteed by the caller.
        let x = unsafe { self.qkv.write(self.place(row, queries + keys + head)) };
        if self.keys == KeySource::Joint {
            // SAFETY: guaranteed by the caller.
            x.copy_from_slice(unsafe { self.qkv.read(self.place(row, queries + head)) });
        }
        if let Some(weights) = self.value_norm {
            self.isa.run(Normed { x: &mut *x, weights, eps: self.config.norm_eps });
        }
        if self.config.value_scale != 1.0 {
            x.iter_mut().for_each(|x| *x *= self.config.value_scale);
        }
        x
    }

    /// Computes the attention output of one key-value head for a block of rows.
    ///
    /// # Safety
    /// No other thread may process this head and block, and none may write to queries
    /// or cache.
    pub(super) unsafe fn attend(&self, head: usize, block: usize, scratch: &mut Scratch) {
        let block = self.group.block(head, block);
        let Some(PassToken { cache, .. }) = self.group.rows.get(block.rows.start) else { return };
        let (shared, queries) = (cache.shared(), 0..block.queries());
        scratch.scores.clear();
        scratch.scores.resize(queries.len() * block.tiles() * LANES, 0.0);
        let base = cache.shared_head(self.layer, head).filter(|_| block.from < shared);
        // SAFETY: guaranteed by the caller.
        unsafe {
            if let Some(base) = base {
                self.score((base, 0), block.from..shared, (&block, queries.clone()), scratch);
            }
            for own in self.group.sequences(&block) {
                let queries = block.queries_of(&own.rows);
                let cached = self.group.rows[own.rows.start].cache.head(self.layer, head);
                self.score((cached, shared), own.from..own.reach, (&block, queries), scratch);
            }
        }
        scratch.totals.clear();
        for query in queries {
            self.normalise(query, &block, scratch);
        }
        scratch.shared.clear();
        // SAFETY: guaranteed by the caller.
        unsafe {
            if let Some(base) = base {
                self.mix_shared(base, shared, &block, scratch);
            }
            for own in self.group.sequences(&block) {
                let cached = self.group.rows[own.rows.start].cache.head(self.layer, head);
                self.mix((cached, shared), &own, &block, scratch);
            }
        }
    }

    /// Computes the scores of some queries of a block at some slots of a head, the first of
    /// which is slot `before` of the sequence.
    ///
    /// # Safety
    /// No thread may write to the queries or the cache.
    unsafe fn score(
        &self,
        (cached, before): (&Head, usize),
        slots: Range<usize>,
        (block, queries): (&QueryBlock, Range<usize>),
        scratch: &mut Scratch,
    ) {
        let dim = self.heads.width;
        let Scratch { scores, sums, queries: packed, wide, .. } = scratch;
        in_groups(self.isa, (queries.len(), dim), packed, |query| {
            let query = queries.start + query;
            // SAFETY: guaranteed by the caller.
            unsafe { self.qkv.read(self.place(block.row(query), block.head(query))) }
        });
        let rows = Rows { count: queries.len(), words: bytemuck::cast_slice(packed) };
        let (begin, end) = (slots.start / LANES, slots.end.div_ceil(LANES));
        let (first, all) = (begin - block.from / LANES, block.tiles());
        for part in parts(end - begin, cached.tiles_at_once(dim)) {
            let tiles = begin - before / LANES + part.start..begin - before / LANES + part.end;
            // SAFETY: guaranteed by the caller.
            let lines = unsafe { cached.keys(self.isa, tiles, wide) };
            let tiles = part.len();
            let keys = CacheTiles { lines, stride: dim, used: dim, tiles, begun: &[] };
            keys.multiply(self.isa, rows, sums, &mut |tile, sums| {
                let tile = first + part.start + tile;
                for (tile, sums) in (tile..).zip(sums.chunks_exact(queries.len())) {
                    for (query, lanes) in queries.clone().zip(sums) {
                        let at = (query * all + tile) * LANES;
                        scores[at..at + LANES].copy_from_slice(lanes);
                    }
                }
            });
        }
    }

    /// Turns a query's scores into weights by logical position, and stores their sum.
    fn normalise(&self, query: usize, block: &QueryBlock, scratch: &mut Scratch) {
        let stride = block.tiles() * LANES;
        let scores = &mut scratch.scores[query * stride..][..stride];
        let row = &self.group.rows[block.row(query)];
        let feed = row.feed;
        for (index, &slot) in (feed.prefix..).zip(&feed.ancestors) {
            // Ancestors ascend, so no score is overwritten before it is read.
            if index >= block.from {
                scores[index - block.from] = scores[slot - block.from];
            }
        }
        let scores = &mut scores[..sees(feed) - block.from];
        if let Some(cap) = self.config.attention_softcap {
            self.isa.run(Capped { x: &mut *scores, cap });
        }
        let hidden = self.group.visible_from(row) - block.from;
        scores[..hidden].fill(f32::NEG_INFINITY);
        let sink = self.sinks.map_or(f32::NEG_INFINITY, |sinks| sinks[block.head(query)]);
        scratch.totals.push(self.isa.run(Exponentials { scores, sink }));
    }

    /// Computes the weighted sums of the values of the shared slots, for all rows of a block.
    ///
    /// # Safety
    /// No thread may write to the cache.
    unsafe fn mix_shared(
        &self,
        base: &Head,
        shared: usize,
        block: &QueryBlock,
        scratch: &mut Scratch,
    ) {
        let Scratch { sums, scores, weights, shared: mixed, wide, .. } = scratch;
        let (count, stride) = (block.queries(), block.tiles() * LANES);
        let used = shared - block.from;
        in_groups(self.isa, (count, used), weights, |query| &scores[query * stride..][..used]);
        let rows = Rows { count, words: bytemuck::cast_slice(weights) };
        let tiles = self.heads.width.div_ceil(LANES);
        for part in parts(tiles, base.tiles_at_once(used)) {
            let tiles = part.len();
            // SAFETY: guaranteed by the caller.
            let (lines, stride) =
                unsafe { base.values(self.isa, (block.from..shared, part), wide) };
            let values = CacheTiles { lines, stride, used, tiles, begun: &[] };
            values.multiply(self.isa, rows, sums, &mut |_, sums| mixed.extend_from_slice(sums));
        }
    }

    /// Adds the values of a sequence's own slots, and divides by the sums of the weights.
    ///
    /// # Safety
    /// No thread may write to the cache, and no other thread may process the block.
    unsafe fn mix(
        &self,
        (cached, before): (&Head, usize),
        own: &OwnRows,
        block: &QueryBlock,
        scratch: &mut Scratch,
    ) {
        let &OwnRows { from, common, reach, .. } = own;
        let HeadSizes { queries: heads, width: dim, .. } = self.heads;
        let Scratch { sums, scores, totals, weights, shared, begun, mixed, wide, .. } = scratch;
        let (queries, all) = (block.queries_of(&own.rows), block.queries());
        // Weights of a query from the first own slot on.
        let weights_of = |query: usize| {
            let first = query * block.tiles() * LANES;
            &scores[first + from - block.from..first + block.tiles() * LANES]
        };
        let used = common - from;
        let count = queries.len();
        in_groups(self.isa, (count, used), weights, |i| &weights_of(queries.start + i)[..used]);
        let rows = Rows { count, words: bytemuck::cast_slice(weights) };
        for part in parts(dim.div_ceil(LANES), cached.tiles_at_once(reach - from)) {
            begun.clear();
            if !shared.is_empty() {
                let of = |tile: usize| &shared[tile * all..][queries.clone()];
                for tile in part.clone() {
                    begun.extend_from_slice(of(tile));
                }
            }
            let slots = from - before..reach - before;
            // SAFETY: guaranteed by the caller.
            let (lines, stride) = unsafe { cached.values(self.isa, (slots, part.clone()), wide) };
            let values = CacheTiles { lines, stride, used, tiles: part.len(), begun };
            mixed.clear();
            values.multiply(self.isa, rows, sums, &mut |_, sums| mixed.extend_from_slice(sums));
            for (i, query) in queries.clone().enumerate() {
                let row = block.row(query);
                let feed = self.group.rows[row].feed;
                let at = ((self.group.first + row) * heads + block.head(query)) * dim;
                let numbers = at + part.start * LANES..at + dim.min(part.end * LANES);
                // SAFETY: the caller has exclusive access to the block.
                let out = unsafe { self.mixed.write(numbers) };
                for (tile, out) in out.chunks_mut(LANES).enumerate() {
                    let tail = Tail {
                        sum: mixed[tile * count + i],
                        feed,
                        first: common,
                        weights: &weights_of(query)[used..sees(feed) - from],
                        values: lines.skip(tile * stride),
                        from,
                        total: totals[query],
                    };
                    out.copy_from_slice(&self.isa.run(tail)[..out.len()]);
                }
            }
        }
    }
}

/// The numbers below `count`, at most `most` at once.
fn parts(count: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).step_by(most).map(move |first| first..count.min(first.saturating_add(most)))
}
