//! Which queries attention processes together.

use std::ops::Range;

use super::cache::NativeCache;
use crate::core::lanes::LANES;
use crate::engine::decoder::visible_from;
use crate::model::Feed;

/// Queries per block: rows times the heads that share keys.
const QUERIES: usize = 16;

/// A token of a pass, with the cache of its sequence.
#[derive(Clone, Copy)]
pub(super) struct PassToken<'a> {
    pub feed: &'a Feed,
    pub cache: &'a NativeCache,
    /// The first position that it attends to, if no window says so.
    pub from: Option<usize>,
}

/// The rows of a pass that are attended for together: those of one sequence, or of several that
/// begin with the same shared slots.
#[derive(Clone, Copy)]
pub(super) struct RowGroup<'a> {
    /// The place of the first one in the buffers of the pass.
    pub first: usize,
    pub rows: &'a [PassToken<'a>],
    /// Query heads that share keys.
    pub heads: usize,
    /// A token attends to this many tokens; to all if absent.
    pub window: Option<usize>,
}

/// Rows and query heads that are processed together: they share keys.
#[derive(Debug, Clone)]
pub(super) struct QueryBlock {
    pub rows: Range<usize>,
    pub heads: Range<usize>,
    /// The first position that one of the rows attends to, rounded down to whole lanes, so
    /// that a position is in the same lane, no matter what the others attend to.
    pub from: usize,
    /// One more than the last slot that one of the rows attends to.
    pub reach: usize,
}

/// The rows of one sequence in a block.
#[derive(Debug, Clone)]
pub(super) struct OwnRows {
    pub rows: Range<usize>,
    /// The first of the sequence's own slots that its rows attend to.
    pub from: usize,
    /// The end of the positions that all of these rows attend to, but for windows.
    pub common: usize,
    /// One more than the last slot that one of these rows attends to.
    pub reach: usize,
}

impl QueryBlock {
    pub(super) fn queries(&self) -> usize {
        self.rows.len() * self.heads.len()
    }

    /// The row of a query.
    pub(super) fn row(&self, query: usize) -> usize {
        self.rows.start + query / self.heads.len()
    }

    /// The head of a query.
    pub(super) fn head(&self, query: usize) -> usize {
        self.heads.start + query % self.heads.len()
    }

    /// The queries of some rows.
    pub(super) fn queries_of(&self, rows: &Range<usize>) -> Range<usize> {
        let heads = self.heads.len();
        (rows.start - self.rows.start) * heads..(rows.end - self.rows.start) * heads
    }

    /// Number of tiles of keys from the first position on.
    pub(super) fn tiles(&self) -> usize {
        self.reach.div_ceil(LANES) - self.from / LANES
    }
}

impl<'a> PassToken<'a> {
    /// A token that attends to all that its feed and a window let it see.
    pub(super) fn new(feed: &'a Feed, cache: &'a NativeCache) -> Self {
        Self { feed, cache, from: None }
    }
}

impl<'a> RowGroup<'a> {
    /// The rows of a pass in groups.
    pub(super) fn of(
        rows: &'a [PassToken<'a>],
        heads: usize,
        window: Option<usize>,
    ) -> impl Iterator<Item = Self> {
        let mut first = 0;
        let together = |a: &PassToken<'_>, b: &PassToken<'_>| {
            std::ptr::eq(a.cache, b.cache) || a.cache.shares_with(b.cache)
        };
        rows.chunk_by(together).map(move |rows| {
            let group = Self { first, rows, heads, window };
            first += rows.len();
            group
        })
    }

    /// Rows per block.
    fn rows_at_once(&self) -> usize {
        (QUERIES / self.heads).max(1)
    }

    /// Number of blocks of rows.
    pub(super) fn blocks(&self) -> usize {
        self.rows.len().div_ceil(self.rows_at_once())
    }

    /// The rows of a block, with the queries of one key-value head.
    pub(super) fn block(&self, head: usize, block: usize) -> QueryBlock {
        let at_once = self.rows_at_once();
        let rows = block * at_once..self.rows.len().min((block + 1) * at_once);
        let own = self.rows[rows.clone()].iter();
        let from = own.clone().map(|row| self.visible_from(row)).min().unwrap_or(0);
        let reach = own.map(|row| reaches(row.feed)).max().unwrap_or(0);
        let heads = head * self.heads..(head + 1) * self.heads;
        QueryBlock { rows, heads, from: from / LANES * LANES, reach }
    }

    /// The rows of a block, sequence by sequence.
    pub(super) fn sequences(&self, block: &QueryBlock) -> impl Iterator<Item = OwnRows> {
        let (mut begin, from) = (block.rows.start, block.from);
        let same = |a: &PassToken<'_>, b: &PassToken<'_>| std::ptr::eq(a.cache, b.cache);
        self.rows[block.rows.clone()].chunk_by(same).map(move |rows| {
            let from = from.max(rows[0].cache.shared());
            let feeds = rows.iter().map(|row| row.feed);
            let common = feeds.clone().map(|feed| feed.prefix).min().unwrap_or(0).max(from);
            let reach = feeds.map(reaches).max().unwrap_or(0).max(from);
            begin += rows.len();
            OwnRows { rows: begin - rows.len()..begin, from, common, reach }
        })
    }

    /// The first position that a token attends to.
    pub(super) fn visible_from(&self, row: &PassToken<'_>) -> usize {
        row.from.unwrap_or_else(|| visible_from(self.window, sees(row.feed)))
    }
}

/// Number of tokens that a token attends to, itself included.
pub(super) fn sees(feed: &Feed) -> usize {
    feed.prefix + feed.ancestors.len()
}

/// One more than the highest slot that a token attends to.
fn reaches(feed: &Feed) -> usize {
    feed.ancestors.last().map_or(feed.prefix, |&slot| slot + 1)
}
