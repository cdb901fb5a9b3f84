//! Attention of some rows to the cache, one key-value head at a time.
//!
//! Sums over positions run in ascending logical order: first over the prefix that all
//! rows of a block attend to, for all of them together, then over each row's own tail.
//! The result does not depend on where a row's tokens lie in the cache.

#![allow(unsafe_code)] // parts of shared buffers; each access states its reason

use std::ops::Range;

use super::cache::NativeCache;
use super::elementwise::{Capped, NormedInPlace};
use super::matrix::{Chunk, Rows, Sums, TileLines, in_groups, multiply_tiles};
use crate::lanes::{Isa, IsaKind, Kernel, LANES, math};
use crate::model::Feed;
use crate::model::decoder::{Config, visible_from};
use crate::pool::Shared;

/// Queries per block: rows times the heads that share keys.
const QUERIES: usize = 16;

/// The attention of one layer in one pass.
pub(super) struct Attention<'a> {
    pub isa: IsaKind,
    pub config: &'a Config,
    pub layer: usize,
    /// A token attends to this many tokens; to all if absent.
    pub window: Option<usize>,
    /// The norms of every head of queries and of keys.
    pub head_norms: Option<&'a [Vec<f32>; 2]>,
    pub feed: &'a [Feed],
    pub cache: &'a NativeCache,
    /// Cosines and sines: for every row one of each per pair of rotated entries.
    pub angles: Option<&'a (Vec<f32>, Vec<f32>)>,
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
    mixed: Vec<[f32; LANES]>,
    /// Keys or values as f32, if the cache has blocks.
    wide: Vec<[f32; LANES]>,
}

/// Rows and query heads that are processed together: they share keys.
struct QueryBlock {
    rows: Range<usize>,
    heads: Range<usize>,
    /// The first position that one of the rows attends to, rounded down to whole lanes, so
    /// that a position is in the same lane whatever the others attend to.
    from: usize,
    /// The end of the positions that all rows attend to, but for windows.
    common: usize,
    /// One more than the last slot that one of the rows attends to.
    reach: usize,
}

impl QueryBlock {
    fn queries(&self) -> usize {
        self.rows.len() * self.heads.len()
    }

    /// The row of a query.
    fn row(&self, query: usize) -> usize {
        self.rows.start + query / self.heads.len()
    }

    /// The head of a query.
    fn head(&self, query: usize) -> usize {
        self.heads.start + query % self.heads.len()
    }

    /// Number of tiles of keys that are multiplied.
    fn tiles(&self) -> usize {
        self.reach.div_ceil(LANES) - self.from / LANES
    }
}

impl Attention<'_> {
    /// Query heads that share keys.
    fn group(&self) -> usize {
        self.config.heads / self.config.kv_heads
    }

    /// Rows per block.
    fn rows_at_once(&self) -> usize {
        (QUERIES / self.group()).max(1)
    }

    /// Number of blocks of rows.
    pub(super) fn blocks(&self) -> usize {
        self.feed.len().div_ceil(self.rows_at_once())
    }

    /// The rows of a block, with the queries of one key-value head.
    fn block(&self, head: usize, block: usize) -> QueryBlock {
        let (rows, group) = (self.rows_at_once(), self.group());
        let rows = block * rows..self.feed.len().min((block + 1) * rows);
        let feeds = &self.feed[rows.clone()];
        let from = feeds.iter().map(|feed| self.visible_from(feed)).min().unwrap_or(0);
        let from = from / LANES * LANES;
        let common = feeds.iter().map(|feed| feed.prefix).min().unwrap_or(0).max(from);
        let reach = feeds.iter().map(reaches).max().unwrap_or(0);
        QueryBlock { rows, heads: head * group..(head + 1) * group, from, common, reach }
    }

    /// The first position that a token attends to.
    fn visible_from(&self, feed: &Feed) -> usize {
        visible_from(self.window, sees(feed))
    }

    /// The range of a query, key or value head of a row in `qkv`.
    fn place(&self, row: usize, head: usize) -> Range<usize> {
        let at = row * self.config.qkv_width() + head * self.config.head_dim;
        at..at + self.config.head_dim
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
            self.isa.run(NormedInPlace { x: &mut *x, weights, eps: self.config.norm_eps });
        }
        if let Some((cos, sin)) = self.angles {
            let pairs = cos.len() / self.feed.len();
            let angles = row * pairs..(row + 1) * pairs;
            let (cos, sin) = (&cos[angles.clone()], &sin[angles]);
            self.isa.run(Rotated { x: &mut x[..2 * pairs], cos, sin });
        }
        x.iter_mut().for_each(|x| *x *= scale);
        x
    }

    /// Prepares queries and keys of one key-value head for all rows and stores its keys
    /// and values.
    ///
    /// # Safety
    /// No other thread may access this head.
    pub(super) unsafe fn store(&self, head: usize) {
        let Config { heads, kv_heads, attention_scale, .. } = *self.config;
        let cached = self.cache.head(self.layer, head);
        let group = self.group();
        let norm = |i: usize| self.head_norms.map(|norms| &norms[i][..]);
        for (row, feed) in self.feed.iter().enumerate() {
            for query in head * group..(head + 1) * group {
                // SAFETY: the caller has exclusive access to the head.
                unsafe { self.prepare((row, query), norm(0), attention_scale) };
            }
            // SAFETY: the caller has exclusive access to the head.
            let key = unsafe { self.prepare((row, heads + head), norm(1), 1.0) };
            let value = self.place(row, heads + kv_heads + head);
            // SAFETY: the caller has exclusive access to the head.
            unsafe { cached.put(feed.slot, key, self.qkv.read(value)) };
        }
    }

    /// Computes the attention output of one key-value head for a block of rows.
    ///
    /// # Safety
    /// No other thread may process this head and block, and none may write to queries
    /// or cache.
    pub(super) unsafe fn attend(&self, head: usize, block: usize, scratch: &mut Scratch) {
        let block = self.block(head, block);
        // SAFETY: guaranteed by the caller.
        unsafe { self.pack_queries(&block, &mut scratch.queries) };
        // SAFETY: no thread writes to the cache.
        unsafe { self.score(head, &block, scratch) };
        scratch.totals.clear();
        for query in 0..block.queries() {
            self.normalise(query, &block, scratch);
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.mix(head, &block, scratch) };
    }

    /// Packs the queries of a block for a product.
    ///
    /// # Safety
    /// As [`Shared::read`], for the queries.
    unsafe fn pack_queries(&self, block: &QueryBlock, packed: &mut Vec<Chunk>) {
        in_groups(self.isa, (block.queries(), self.config.head_dim), packed, |query| {
            // SAFETY: guaranteed by the caller.
            unsafe { self.qkv.read(self.place(block.row(query), block.head(query))) }
        });
    }

    /// Computes the scores of every slot from the first position to the last slot that a
    /// row of the block attends to.
    ///
    /// # Safety
    /// No thread may write to the cache.
    unsafe fn score(&self, head: usize, block: &QueryBlock, scratch: &mut Scratch) {
        let dim = self.config.head_dim;
        let (queries, tiles) = (block.queries(), block.tiles());
        let Scratch { scores, sums, queries: packed, wide, .. } = scratch;
        let cached = self.cache.head(self.layer, head);
        scores.clear();
        scores.resize(queries * tiles * LANES, 0.0);
        let rows = Rows { count: queries, words: bytemuck::cast_slice(packed) };
        for part in parts(tiles, cached.key_tiles_at_once()) {
            let begin = block.from / LANES;
            let slots = begin + part.start..begin + part.end;
            // SAFETY: guaranteed by the caller.
            let keys = unsafe { cached.keys(self.isa, slots, wide) };
            let size = (dim, dim);
            multiply_tiles(self.isa, keys, size, part.len(), rows, sums, &mut |first, sums| {
                for (tile, sums) in (part.start + first..).zip(sums.chunks_exact(queries)) {
                    for (query, lanes) in sums.iter().enumerate() {
                        let at = (query * tiles + tile) * LANES;
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
        let feed = &self.feed[block.row(query)];
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
        let hidden = self.visible_from(feed) - block.from;
        scores[..hidden].fill(f32::NEG_INFINITY);
        scratch.totals.push(self.isa.run(Exponentials(scores)));
    }

    /// Computes the weighted sums of the values that each row of a block attends to.
    ///
    /// # Safety
    /// No thread may write to the cache, and no other thread may process the block.
    unsafe fn mix(&self, head: usize, block: &QueryBlock, scratch: &mut Scratch) {
        let &QueryBlock { from, common, reach, .. } = block;
        let (heads, dim) = (self.config.heads, self.config.head_dim);
        let Scratch { sums, scores, totals, weights, mixed, wide, .. } = scratch;
        let cached = self.cache.head(self.layer, head);
        let (queries, stride) = (block.queries(), block.tiles() * LANES);
        let weights_of = |query: usize| &scores[query * stride..][..common - from];
        in_groups(self.isa, (queries, common - from), weights, weights_of);
        let packed = Rows { count: queries, words: bytemuck::cast_slice(weights) };
        for part in parts(dim.div_ceil(LANES), cached.value_tiles_at_once(reach - from)) {
            // SAFETY: guaranteed by the caller.
            let (values, apart) =
                unsafe { cached.values(self.isa, (from..reach, part.clone()), wide) };
            mixed.clear();
            let size = (apart, common - from);
            multiply_tiles(self.isa, values, size, part.len(), packed, sums, &mut |_, sums| {
                mixed.extend_from_slice(sums);
            });
            for query in 0..queries {
                let feed = &self.feed[block.row(query)];
                let at = (block.row(query) * heads + block.head(query)) * dim;
                let numbers = at + part.start * LANES..at + dim.min(part.end * LANES);
                // SAFETY: the caller has exclusive access to the block.
                let out = unsafe { self.mixed.write(numbers) };
                for (tile, out) in out.chunks_mut(LANES).enumerate() {
                    let tail = Tail {
                        sum: mixed[tile * queries + query],
                        feed,
                        first: common,
                        weights: &scores[query * stride..][common - from..sees(feed) - from],
                        values: values.skip(tile * apart),
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

/// Number of tokens that a token attends to, itself included.
fn sees(feed: &Feed) -> usize {
    feed.prefix + feed.ancestors.len()
}

/// The slot of the `index`-th token that a token attends to.
fn slot_of(feed: &Feed, index: usize) -> usize {
    if index < feed.prefix { index } else { feed.ancestors[index - feed.prefix] }
}

/// One more than the highest slot that a token attends to.
fn reaches(feed: &Feed) -> usize {
    feed.ancestors.last().map_or(feed.prefix, |&slot| slot + 1)
}

/// Replaces scores by eˢᶜᵒʳᵉ⁻ᵐᵃˣ and returns their sum.
struct Exponentials<'a>(&'a mut [f32]);

impl Kernel for Exponentials<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> f32 {
        let most = isa.splat(math::largest(isa, self.0));
        let mut total = isa.splat(0.0);
        let (whole, rest) = self.0.as_chunks_mut::<LANES>();
        for lanes in whole {
            let e = math::exp(isa, isa.sub(isa.load(lanes), most));
            isa.store(e, lanes);
            total = isa.add(total, e);
        }
        if !rest.is_empty() {
            let mut lanes = [0.0; LANES];
            isa.store(math::exp(isa, isa.sub(math::load_part(isa, rest), most)), &mut lanes);
            rest.copy_from_slice(&lanes[..rest.len()]);
            total = isa.add(total, math::load_part(isa, rest));
        }
        math::sum(isa, total)
    }
}

/// Rotates pairs of entries, half of `x` apart, by angles.
struct Rotated<'a> {
    x: &'a mut [f32],
    cos: &'a [f32],
    sin: &'a [f32],
}

impl Kernel for Rotated<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, _: I) {
        let (low, high) = self.x.split_at_mut(self.cos.len());
        for (((a, b), cos), sin) in low.iter_mut().zip(high).zip(self.cos).zip(self.sin) {
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
        }
    }
}

/// Adds the positions of a row after the common prefix, and divides by the sum of the
/// weights.
struct Tail<'a> {
    sum: [f32; LANES],
    feed: &'a Feed,
    /// The first of these positions.
    first: usize,
    weights: &'a [f32],
    /// Those of the slots from `from` on.
    values: TileLines<'a>,
    from: usize,
    total: f32,
}

impl Kernel for Tail<'_> {
    type Output = [f32; LANES];

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> [f32; LANES] {
        let mut sum = isa.load(&self.sum);
        for (i, &weight) in self.weights.iter().enumerate() {
            let value = self.values.load(isa, slot_of(self.feed, self.first + i) - self.from);
            sum = isa.fma(value, isa.splat(weight), sum);
        }
        let mut out = [0.0; LANES];
        isa.store(isa.div(sum, isa.splat(self.total)), &mut out);
        out
    }
}
