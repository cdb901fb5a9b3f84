//! Attention of some rows to the cache, one key-value head at a time.
//!
//! Sums over positions run in ascending logical order: first over the prefix that all
//! rows of a block attend to, for all of them together, then over each row's own tail.
//! The result does not depend on where a row's tokens lie in the cache.

#![allow(unsafe_code)] // parts of shared buffers; each access states its reason

use std::ops::Range;

use super::cache::NativeCache;
use super::matrix::{Chunk, Rows, Sums, in_groups, multiply_tiles};
use crate::lanes::{Isa, IsaKind, Kernel, LANES, math};
use crate::model::Feed;
use crate::pool::Shared;

/// Queries per block: rows times the heads that share keys.
const QUERIES: usize = 16;

/// The attention of one layer in one pass.
pub(super) struct Attention<'a> {
    pub isa: IsaKind,
    pub layer: usize,
    /// Query heads.
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub feed: &'a [Feed],
    pub cache: &'a NativeCache,
    /// Cosines and sines: for every row `head_dim / 2` of each.
    pub angles: &'a (Vec<f32>, Vec<f32>),
    /// Query, key and value heads of every row; queries and keys are rotated in
    /// place.
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
}

impl Attention<'_> {
    /// Rows per block.
    fn rows_at_once(&self) -> usize {
        (QUERIES * self.kv_heads / self.heads).max(1)
    }

    /// Number of blocks of rows.
    pub(super) fn blocks(&self) -> usize {
        self.feed.len().div_ceil(self.rows_at_once())
    }

    fn width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// The range of a query, key or value head of a row in `qkv`.
    fn place(&self, row: usize, head: usize) -> Range<usize> {
        let at = row * self.width() + head * self.head_dim;
        at..at + self.head_dim
    }

    /// Rotates a head of a row by its position and scales it.
    ///
    /// # Safety
    /// As [`Shared::write`], for this head.
    unsafe fn rotate(&self, row: usize, head: usize, scale: f32) -> &[f32] {
        let half = self.head_dim / 2;
        let angles = row * half..(row + 1) * half;
        // SAFETY: guaranteed by the caller.
        let x = unsafe { self.qkv.write(self.place(row, head)) };
        let (cos, sin) = (&self.angles.0[angles.clone()], &self.angles.1[angles]);
        self.isa.run(Rotated { x: &mut *x, cos, sin, scale });
        x
    }

    /// Rotates queries and keys of one key-value head for all rows and stores its
    /// keys and values.
    ///
    /// # Safety
    /// No other thread may access this head.
    pub(super) unsafe fn store(&self, head: usize) {
        let dim = self.head_dim;
        let slots = self.cache.slots();
        let cached = self.cache.head(self.layer, head);
        let group = self.heads / self.kv_heads;
        let scale = 1.0 / (dim as f32).sqrt();
        for (row, feed) in self.feed.iter().enumerate() {
            for query in head * group..(head + 1) * group {
                // SAFETY: the caller has exclusive access to the head.
                unsafe { self.rotate(row, query, scale) };
            }
            // SAFETY: the caller has exclusive access to the head.
            let key = unsafe { self.rotate(row, self.heads + head, 1.0) };
            let first = feed.slot / LANES * dim;
            // SAFETY: the caller has exclusive access to the head.
            let lines = unsafe { cached.keys.write(first..first + dim) };
            for (line, &x) in lines.iter_mut().zip(key) {
                line[feed.slot % LANES] = x;
            }
            let value = self.place(row, self.heads + self.kv_heads + head);
            // SAFETY: the caller has exclusive access to the head.
            let value = unsafe { self.qkv.read(value) };
            for (tile, value) in value.chunks(LANES).enumerate() {
                let at = tile * slots + feed.slot;
                // SAFETY: the caller has exclusive access to the head.
                let line = unsafe { cached.values.write(at..at + 1) };
                line[0][..value.len()].copy_from_slice(value);
            }
        }
    }

    /// Computes the attention output of one key-value head for a block of rows.
    ///
    /// # Safety
    /// No other thread may process this head and block, and none may write to queries
    /// or cache.
    pub(super) unsafe fn attend(&self, head: usize, block: usize, scratch: &mut Scratch) {
        let rows = self.rows_at_once();
        let rows = block * rows..self.feed.len().min((block + 1) * rows);
        let group = self.heads / self.kv_heads;
        let heads = head * group..(head + 1) * group;
        // SAFETY: guaranteed by the caller.
        unsafe { self.pack_queries(rows.clone(), heads.clone(), &mut scratch.queries) };
        // SAFETY: no thread writes to the cache.
        unsafe { self.score(head, rows.clone(), scratch) };
        scratch.totals.clear();
        let queries = rows.len() * group;
        for query in 0..queries {
            self.normalise(query, rows.start + query / group, queries, scratch);
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.mix(head, rows, heads, scratch) };
    }

    /// Packs the queries of a block for a product.
    ///
    /// # Safety
    /// As [`Shared::read`], for the queries.
    unsafe fn pack_queries(
        &self,
        rows: Range<usize>,
        heads: Range<usize>,
        packed: &mut Vec<Chunk>,
    ) {
        let count = rows.len() * heads.len();
        in_groups(self.isa, (count, self.head_dim), packed, |query| {
            let row = rows.start + query / heads.len();
            // SAFETY: guaranteed by the caller.
            unsafe { self.qkv.read(self.place(row, heads.start + query % heads.len())) }
        });
    }

    /// Computes the scores of every slot up to the last one that a row of the block
    /// attends to.
    ///
    /// # Safety
    /// No thread may write to the cache.
    unsafe fn score(&self, head: usize, rows: Range<usize>, scratch: &mut Scratch) {
        let dim = self.head_dim;
        let queries = rows.len() * self.heads / self.kv_heads;
        let reach = self.feed[rows].iter().map(reaches).max().unwrap_or(0);
        let tiles = reach.div_ceil(LANES);
        // SAFETY: guaranteed by the caller.
        let keys = unsafe { self.cache.head(self.layer, head).keys.read(0..tiles * dim) };
        let Scratch { scores, sums, queries: packed, .. } = scratch;
        scores.clear();
        scores.resize(queries * tiles * LANES, 0.0);
        let rows = Rows { count: queries, words: bytemuck::cast_slice(packed) };
        multiply_tiles(self.isa, keys, (dim, dim), tiles, rows, sums, &mut |first, sums| {
            for (tile, sums) in sums.chunks_exact(queries).enumerate() {
                for (query, lanes) in sums.iter().enumerate() {
                    let at = (query * tiles + first + tile) * LANES;
                    scores[at..at + LANES].copy_from_slice(lanes);
                }
            }
        });
    }

    /// Turns a query's scores into weights by logical position, and stores their sum.
    fn normalise(&self, query: usize, row: usize, queries: usize, scratch: &mut Scratch) {
        let stride = scratch.scores.len() / queries;
        let scores = &mut scratch.scores[query * stride..][..stride];
        let feed = &self.feed[row];
        for (index, &slot) in (feed.prefix..).zip(&feed.ancestors) {
            // Ancestors ascend, so no score is overwritten before it is read.
            scores[index] = scores[slot];
        }
        let total = self.isa.run(Exponentials(&mut scores[..sees(feed)]));
        scratch.totals.push(total);
    }

    /// Computes the weighted sums of the values that each row of a block attends to.
    ///
    /// # Safety
    /// No thread may write to the cache, and no other thread may process the block.
    unsafe fn mix(
        &self,
        head: usize,
        rows: Range<usize>,
        heads: Range<usize>,
        scratch: &mut Scratch,
    ) {
        let queries = rows.len() * heads.len();
        let (tiles, slots) = (self.head_dim.div_ceil(LANES), self.cache.slots());
        // SAFETY: guaranteed by the caller.
        let values = unsafe { self.cache.head(self.layer, head).values.read(0..tiles * slots) };
        let Scratch { sums, scores, totals, weights, mixed, .. } = scratch;
        let stride = scores.len() / queries;
        let common = self.feed[rows.clone()].iter().map(|f| f.prefix).min().unwrap_or(0);
        let weights_of = |query: usize| &scores[query * stride..][..common];
        in_groups(self.isa, (queries, common), weights, weights_of);
        mixed.clear();
        let packed = Rows { count: queries, words: bytemuck::cast_slice(weights) };
        let size = (slots, common);
        multiply_tiles(self.isa, values, size, tiles, packed, sums, &mut |_, sums| {
            mixed.extend_from_slice(sums);
        });
        for query in 0..queries {
            let row = rows.start + query / heads.len();
            let feed = &self.feed[row];
            let at = (row * self.heads + heads.start + query % heads.len()) * self.head_dim;
            // SAFETY: the caller has exclusive access to the block.
            let out = unsafe { self.mixed.write(at..at + self.head_dim) };
            for (tile, out) in out.chunks_mut(LANES).enumerate() {
                let tail = Tail {
                    sum: mixed[tile * queries + query],
                    feed,
                    first: common,
                    weights: &scores[query * stride..][common..sees(feed)],
                    values: &values[tile * slots..][..slots],
                    total: totals[query],
                };
                out.copy_from_slice(&self.isa.run(tail)[..out.len()]);
            }
        }
    }
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

/// Rotates pairs of entries, half a head apart, by angles.
struct Rotated<'a> {
    x: &'a mut [f32],
    cos: &'a [f32],
    sin: &'a [f32],
    scale: f32,
}

impl Kernel for Rotated<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, _: I) {
        let (low, high) = self.x.split_at_mut(self.cos.len());
        for (((a, b), cos), sin) in low.iter_mut().zip(high).zip(self.cos).zip(self.sin) {
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
            *a *= self.scale;
            *b *= self.scale;
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
    values: &'a [[f32; LANES]],
    total: f32,
}

impl Kernel for Tail<'_> {
    type Output = [f32; LANES];

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> [f32; LANES] {
        let mut sum = isa.load(&self.sum);
        for (i, &weight) in self.weights.iter().enumerate() {
            let value = &self.values[slot_of(self.feed, self.first + i)];
            sum = isa.fma(isa.load(value), isa.splat(weight), sum);
        }
        let mut out = [0.0; LANES];
        isa.store(isa.div(sum, isa.splat(self.total)), &mut out);
        out
    }
}
