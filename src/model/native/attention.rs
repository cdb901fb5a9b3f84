//! Attention of some rows to the cache, one key-value head at a time.
//!
//! Sums over positions run in ascending logical order: first the prefix that all
//! rows of a block see, for all of them together, then each row's own tail.
//! Where a row's tokens lie in the cache plays no part.

#![allow(unsafe_code)] // parts of shared buffers, each with its reason

use std::ops::Range;

use super::cache::Cache;
use super::matrix::{Rows, Sums, groups, multiply_tiles};
use crate::lanes::{Isa, IsaKind, Kernel, LANES, math};
use crate::model::Feed;
use crate::pool::Shared;

/// Queries of a block: rows times the heads that share keys.
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
    pub cache: &'a Cache,
    /// Cosines and sines: for every row `head_dim / 2` of each.
    pub angles: &'a (Vec<f32>, Vec<f32>),
    /// Query, key and value heads of every row.
    pub qkv: &'a Shared<f32>,
    /// The mixed values of every row.
    pub mixed: &'a Shared<f32>,
}

/// Working memory of one thread.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// A row on its way to a product.
    pub row: Vec<f32>,
    pub sums: Sums,
    queries: Vec<f32>,
    scores: Vec<f32>,
    totals: Vec<f32>,
    weights: Vec<f32>,
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

    /// A head of the queries, keys and values of a row.
    ///
    /// # Safety
    /// As [`Shared::read`], of the queries, keys and values.
    unsafe fn head_of(&self, row: usize, head: usize) -> &[f32] {
        let at = row * self.width() + head * self.head_dim;
        // SAFETY: the caller's.
        unsafe { self.qkv.read(at..at + self.head_dim) }
    }

    /// The rotated entry `d` of a head.
    fn rotated(&self, row: usize, x: &[f32], d: usize) -> f32 {
        let half = self.head_dim / 2;
        let at = row * half + d % half;
        let (cos, sin) = (self.angles.0[at], self.angles.1[at]);
        if d < half { x[d] * cos - x[d + half] * sin } else { x[d] * cos + x[d - half] * sin }
    }

    /// Stores the keys and values of one head for all rows.
    ///
    /// # Safety
    /// No other thread has this head, nor writes queries, keys or values.
    pub(super) unsafe fn store(&self, head: usize) {
        let dim = self.head_dim;
        let slots = self.cache.slots();
        let cached = self.cache.head(self.layer, head);
        for (row, feed) in self.feed.iter().enumerate() {
            // SAFETY: the caller's.
            let key = unsafe { self.head_of(row, self.heads + head) };
            let value = unsafe { self.head_of(row, self.heads + self.kv_heads + head) };
            let first = feed.slot / LANES * dim;
            // SAFETY: the caller has the head alone.
            let lines = unsafe { cached.keys.write(first..first + dim) };
            for (d, line) in lines.iter_mut().enumerate() {
                line[feed.slot % LANES] = self.rotated(row, key, d);
            }
            for (tile, value) in value.chunks(LANES).enumerate() {
                let at = tile * slots + feed.slot;
                // SAFETY: the caller has the head alone.
                let line = unsafe { cached.values.write(at..at + 1) };
                line[0][..value.len()].copy_from_slice(value);
            }
        }
    }

    /// Mixes the values of one key-value head for a block of rows.
    ///
    /// # Safety
    /// No other thread has this head and block, nor writes queries or cache.
    pub(super) unsafe fn attend(&self, head: usize, block: usize, scratch: &mut Scratch) {
        let rows = self.rows_at_once();
        let rows = block * rows..self.feed.len().min((block + 1) * rows);
        let group = self.heads / self.kv_heads;
        let heads = head * group..(head + 1) * group;
        // SAFETY: the caller's.
        unsafe { self.pack_queries(rows.clone(), heads.clone(), &mut scratch.queries) };
        // SAFETY: nobody writes to the cache.
        unsafe { self.score(head, rows.clone(), scratch) };
        scratch.totals.clear();
        let queries = rows.len() * group;
        for query in 0..queries {
            self.normalise(query, rows.start + query / group, queries, scratch);
        }
        // SAFETY: the caller's.
        unsafe { self.mix(head, rows, heads, scratch) };
    }

    /// Rotates and scales the queries of a block and groups them for a product.
    ///
    /// # Safety
    /// As [`Shared::read`], of the queries.
    unsafe fn pack_queries(&self, rows: Range<usize>, heads: Range<usize>, packed: &mut Vec<f32>) {
        let scale = 1.0 / (self.head_dim as f32).sqrt();
        let count = rows.len() * heads.len();
        packed.clear();
        for (first, size) in groups(self.isa, count) {
            for d in 0..self.head_dim {
                for query in first..first + size {
                    let row = rows.start + query / heads.len();
                    // SAFETY: the caller's.
                    let x = unsafe { self.head_of(row, heads.start + query % heads.len()) };
                    packed.push(self.rotated(row, x, d) * scale);
                }
            }
        }
    }

    /// Scores every slot up to the last that a row of the block sees.
    ///
    /// # Safety
    /// Nobody writes to the cache.
    unsafe fn score(&self, head: usize, rows: Range<usize>, scratch: &mut Scratch) {
        let dim = self.head_dim;
        let queries = scratch.queries.len() / dim;
        let reach = self.feed[rows].iter().map(reaches).max().unwrap_or(0);
        let tiles = reach.div_ceil(LANES);
        // SAFETY: the caller's.
        let keys = unsafe { self.cache.head(self.layer, head).keys.read(0..tiles * dim) };
        let Scratch { scores, sums, queries: packed, .. } = scratch;
        scores.clear();
        scores.resize(queries * tiles * LANES, 0.0);
        let rows = Rows { rows: queries, dense: packed, blocks: &[] };
        multiply_tiles(self.isa, keys, (dim, dim), tiles, rows, sums, &mut |first, sums| {
            for (tile, sums) in sums.chunks_exact(queries).enumerate() {
                for (query, lanes) in sums.iter().enumerate() {
                    let at = (query * tiles + first + tile) * LANES;
                    scores[at..at + LANES].copy_from_slice(lanes);
                }
            }
        });
    }

    /// Turns a query's scores into weights by logical position, and notes their
    /// sum.
    fn normalise(&self, query: usize, row: usize, queries: usize, scratch: &mut Scratch) {
        let stride = scratch.scores.len() / queries;
        let scores = &mut scratch.scores[query * stride..][..stride];
        let feed = &self.feed[row];
        for (index, &slot) in (feed.prefix..).zip(&feed.ancestors) {
            // Ancestors ascend, so no score is overwritten before its turn.
            scores[index] = scores[slot];
        }
        let total = self.isa.run(Exponentials(&mut scores[..sees(feed)]));
        scratch.totals.push(total);
    }

    /// Mixes the values of the slots that each row of a block sees.
    ///
    /// # Safety
    /// Nobody writes to the cache; no other thread has the block.
    unsafe fn mix(
        &self,
        head: usize,
        rows: Range<usize>,
        heads: Range<usize>,
        scratch: &mut Scratch,
    ) {
        let queries = rows.len() * heads.len();
        let (tiles, slots) = (self.head_dim.div_ceil(LANES), self.cache.slots());
        // SAFETY: the caller's.
        let values = unsafe { self.cache.head(self.layer, head).values.read(0..tiles * slots) };
        let Scratch { sums, scores, totals, weights, mixed, .. } = scratch;
        let stride = scores.len() / queries;
        let common = self.feed[rows.clone()].iter().map(|f| f.prefix).min().unwrap_or(0);
        weights.clear();
        for (first, size) in groups(self.isa, queries) {
            for index in 0..common {
                weights.extend((first..first + size).map(|query| scores[query * stride + index]));
            }
        }
        mixed.clear();
        let packed = Rows { rows: queries, dense: weights, blocks: &[] };
        let size = (slots, common);
        multiply_tiles(self.isa, values, size, tiles, packed, sums, &mut |_, sums| {
            mixed.extend_from_slice(sums);
        });
        for query in 0..queries {
            let row = rows.start + query / heads.len();
            let feed = &self.feed[row];
            let at = (row * self.heads + heads.start + query % heads.len()) * self.head_dim;
            // SAFETY: the caller has the block alone.
            let out = unsafe { self.mixed.write(at..at + self.head_dim) };
            for (tile, out) in out.chunks_mut(LANES).enumerate() {
                let values = &values[tile * slots..][..slots];
                let tail =
                    (common..sees(feed)).map(|i| (scores[query * stride + i], slot_of(feed, i)));
                let sum = mixed[tile * queries + query];
                let tail = Tail { sum, tail, values, total: totals[query] };
                out.copy_from_slice(&self.isa.run(tail)[..out.len()]);
            }
        }
    }
}

/// Number of tokens that a token sees, itself included.
fn sees(feed: &Feed) -> usize {
    feed.prefix + feed.ancestors.len()
}

/// The slot of the `index`-th token that a token sees.
fn slot_of(feed: &Feed, index: usize) -> usize {
    if index < feed.prefix { index } else { feed.ancestors[index - feed.prefix] }
}

/// One more than the highest slot that a token sees.
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

/// Adds the last positions that a row sees and divides by the sum of weights.
struct Tail<'a, T> {
    sum: [f32; LANES],
    /// Weight and slot of each.
    tail: T,
    values: &'a [[f32; LANES]],
    total: f32,
}

impl<T: Iterator<Item = (f32, usize)>> Kernel for Tail<'_, T> {
    type Output = [f32; LANES];

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> [f32; LANES] {
        let mut sum = isa.load(&self.sum);
        for (weight, slot) in self.tail {
            sum = isa.fma(isa.load(&self.values[slot]), isa.splat(weight), sum);
        }
        let mut out = [0.0; LANES];
        isa.store(isa.div(sum, isa.splat(self.total)), &mut out);
        out
    }
}
