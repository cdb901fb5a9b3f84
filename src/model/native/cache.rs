//! Keys and values by slot, in tiles that the kernels of the products can read.
//!
//! For the scores, a head's keys are a matrix with one output per slot; for the
//! weighted sum of values, its values are a matrix with one input per slot. Both are
//! stored that way, so attention is two matrix products.

#![allow(unsafe_code)] // reads buffers that a pass shares

use std::any::Any;
use std::ops::Range;

use crate::error::Error;
use crate::lanes::LANES;
use crate::model::KvCache;
use crate::pool::Shared;

/// Slots are allocated in multiples of this many: a context of 128k positions
/// costs memory only as far as it is used.
const BLOCK: usize = 256;

/// The cache of one sequence.
#[derive(Debug)]
pub(super) struct NativeCache {
    head_dim: usize,
    kv_heads: usize,
    slots: usize,
    /// Layer by layer, head by head.
    heads: Vec<Head>,
}

/// Keys and values of one head of one layer.
#[derive(Debug)]
pub(super) struct Head {
    /// `[slot / 16][dimension][slot % 16]`.
    pub(super) keys: Shared<[f32; LANES]>,
    /// `[dimension / 16][slot][dimension % 16]`.
    pub(super) values: Shared<[f32; LANES]>,
}

impl NativeCache {
    pub(super) fn new(layers: usize, kv_heads: usize, head_dim: usize) -> Self {
        let heads = (0..layers * kv_heads).map(|_| Head::new(BLOCK, head_dim)).collect();
        Self { head_dim, kv_heads, slots: BLOCK, heads }
    }

    /// The head of a layer.
    pub(super) fn head(&self, layer: usize, head: usize) -> &Head {
        &self.heads[layer * self.kv_heads + head]
    }

    /// Number of slots there is room for.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// Makes room for the slots below `slots`.
    pub(super) fn reserve(&mut self, slots: usize) {
        if slots > self.slots {
            // Doubling keeps the total cost of copying linear in the length of the
            // text.
            let room = slots.max(2 * self.slots).next_multiple_of(BLOCK);
            for head in &mut self.heads {
                *head = head.resized(self.head_dim, self.slots, self.slots, room);
            }
            self.slots = room;
        }
    }
}

impl KvCache for NativeCache {
    fn copy_row(&mut self, from: usize, to: usize) -> Result<(), Error> {
        let (dim, slots) = (self.head_dim, self.slots);
        for head in &mut self.heads {
            let keys = head.keys.get_mut();
            for d in 0..dim {
                keys[to / LANES * dim + d][to % LANES] = keys[from / LANES * dim + d][from % LANES];
            }
            for tile in head.values.get_mut().chunks_exact_mut(slots) {
                tile[to] = tile[from];
            }
        }
        Ok(())
    }

    fn copy_rows(&mut self, from: &mut dyn KvCache, slots: Range<usize>) -> Result<bool, Error> {
        let Some(from) = from.as_any().downcast_mut::<Self>() else { return Ok(false) };
        self.reserve(slots.end);
        let (dim, room) = (self.head_dim, [self.slots, from.slots]);
        for (to, from) in self.heads.iter_mut().zip(&mut from.heads) {
            to.copy_rows(from, dim, room, slots.clone());
        }
        Ok(true)
    }

    fn fork(&self, slots: usize) -> Result<Box<dyn KvCache>, Error> {
        let room = slots.max(1).next_multiple_of(BLOCK);
        let copy = |head: &Head| head.resized(self.head_dim, self.slots, slots, room);
        let heads = self.heads.iter().map(copy).collect();
        Ok(Box::new(Self { heads, slots: room, ..*self }))
    }

    fn key(&self, slots: usize) -> Vec<u8> {
        let rows = |head: &Head| {
            let mut kept = head.resized(self.head_dim, self.slots, slots, slots.max(1));
            [kept.keys.get_mut(), kept.values.get_mut()].concat()
        };
        self.heads.iter().flat_map(rows).flatten().flat_map(f32::to_le_bytes).collect()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl Head {
    fn new(slots: usize, head_dim: usize) -> Self {
        Self {
            keys: Shared::new(slots.div_ceil(LANES) * head_dim, [0.0; LANES]),
            values: Shared::new(head_dim.div_ceil(LANES) * slots, [0.0; LANES]),
        }
    }

    /// Copies the rows in `rows` from a head with room for `from_room` slots to this one, which
    /// has room for `room`.
    fn copy_rows(
        &mut self,
        from: &mut Self,
        head_dim: usize,
        [room, from_room]: [usize; 2],
        rows: Range<usize>,
    ) {
        let (to, source) = (self.keys.get_mut(), from.keys.get_mut());
        for row in rows.clone() {
            let tile = row / LANES * head_dim..(row / LANES + 1) * head_dim;
            for (to, from) in to[tile.clone()].iter_mut().zip(&source[tile]) {
                to[row % LANES] = from[row % LANES];
            }
        }
        let tiles = self.values.get_mut().chunks_exact_mut(room);
        for (to, from) in tiles.zip(from.values.get_mut().chunks_exact(from_room)) {
            to[rows.clone()].copy_from_slice(&from[rows.clone()]);
        }
    }

    /// A copy with room for `room` slots, of which the first `used` are filled.
    fn resized(&self, head_dim: usize, slots: usize, used: usize, room: usize) -> Self {
        let mut new = Self::new(room, head_dim);
        // SAFETY: only a pass writes to a cache through shared references, and it holds
        // the cache mutably while it runs, so none runs now.
        let (keys, values) = unsafe { (self.keys.read_all(), self.values.read_all()) };
        let whole = used / LANES * head_dim;
        let to = new.keys.get_mut();
        to[..whole].copy_from_slice(&keys[..whole]);
        for (to, from) in to[whole..].iter_mut().zip(&keys[whole..]).take(head_dim) {
            to[..used % LANES].copy_from_slice(&from[..used % LANES]);
        }
        for (to, from) in new.values.get_mut().chunks_exact_mut(room).zip(values.chunks(slots)) {
            to[..used].copy_from_slice(&from[..used]);
        }
        new
    }
}
