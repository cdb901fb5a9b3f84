//! Keys and values by slot, in tiles that the kernels of the products can read.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use super::head::Head;
use crate::error::Error;
use crate::lanes::LANES;
use crate::model::{CacheDtype, KvCache};

/// Slots are allocated in multiples of this many: a context of 128k positions
/// costs memory only as far as it is used.
const BLOCK: usize = 256;

/// The cache of one sequence: slots with which others begin, too, and slots of its own.
#[derive(Debug)]
pub(super) struct NativeCache {
    dtype: CacheDtype,
    head_dim: usize,
    kv_heads: usize,
    base: Option<Arc<SharedSlots>>,
    /// Own slots that there is room for.
    room: usize,
    /// The own slots, layer by layer, head by head.
    heads: Vec<Head>,
}

/// The first slots of several sequences, which nobody writes to.
#[derive(Debug)]
struct SharedSlots {
    /// Whole tiles.
    slots: usize,
    heads: Vec<Head>,
}

impl NativeCache {
    pub(super) fn new(
        layers: usize,
        (kv_heads, head_dim): (usize, usize),
        dtype: CacheDtype,
    ) -> Self {
        let heads = (0..layers * kv_heads).map(|_| Head::new(dtype, head_dim, BLOCK)).collect();
        Self { dtype, head_dim, kv_heads, base: None, room: BLOCK, heads }
    }

    /// Number of slots that are shared; the others are its own.
    pub(super) fn shared(&self) -> usize {
        self.base.as_ref().map_or(0, |base| base.slots)
    }

    /// The shared slots of a head of a layer, if there are any.
    pub(super) fn shared_head(&self, layer: usize, head: usize) -> Option<&Head> {
        self.base.as_ref().map(|base| &base.heads[layer * self.kv_heads + head])
    }

    /// The own slots of a head of a layer, the first of which follows the shared ones.
    pub(super) fn head(&self, layer: usize, head: usize) -> &Head {
        &self.heads[layer * self.kv_heads + head]
    }

    /// Whether both begin with the same shared slots.
    pub(super) fn shares_with(&self, other: &Self) -> bool {
        match (&self.base, &other.base) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }

    /// Makes room for the slots below `slots`.
    pub(super) fn reserve(&mut self, slots: usize) {
        let own = slots.saturating_sub(self.shared());
        if own > self.room {
            // Doubling keeps the total cost of copying linear in the length of the
            // text.
            let room = own.max(2 * self.room).next_multiple_of(BLOCK);
            for head in &mut self.heads {
                *head = head.resized(self.room, room);
            }
            self.room = room;
        }
    }

    /// Makes the slots from `first` on its own, so that they can be written to.
    pub(super) fn own_from(&mut self, first: usize) {
        if first < self.shared() {
            let slots = self.shared() + self.room;
            (self.heads, self.room) = (self.copied(slots, slots), slots);
            self.base = None;
        }
    }

    /// A copy of the first `slots` slots, shared and own ones, with room for `room`.
    fn copied(&self, slots: usize, room: usize) -> Vec<Head> {
        let shared = self.shared();
        let whole = |(number, own): (usize, &Head)| match &self.base {
            None => own.resized(slots, room),
            Some(base) => {
                let mut head = base.heads[number].resized(slots.min(shared), room);
                if slots > shared {
                    head.copy(own, 0..slots - shared, shared);
                }
                head
            }
        };
        self.heads.iter().enumerate().map(whole).collect()
    }

    /// Turns whole tiles of the first `slots` of the `held` slots into shared ones, if none are
    /// shared yet.
    fn freeze(&mut self, slots: usize, held: usize) {
        let shared = slots.min(held) / LANES * LANES;
        if self.base.is_some() || shared == 0 {
            return;
        }
        let room = (held - shared).max(1).next_multiple_of(BLOCK);
        let new = || Head::new(self.dtype, self.head_dim, room);
        let mut own = self.heads.iter().map(|_| new()).collect::<Vec<_>>();
        own.iter_mut().zip(&self.heads).for_each(|(own, all)| own.copy(all, shared..held, 0));
        let all = std::mem::replace(&mut self.heads, own);
        // What follows the shared slots is no longer needed there.
        let heads = all.iter().map(|head| head.resized(shared, shared)).collect();
        (self.base, self.room) = (Some(Arc::new(SharedSlots { slots: shared, heads })), room);
    }
}

impl KvCache for NativeCache {
    fn copy_row(&mut self, from: usize, to: usize) -> Result<(), Error> {
        self.own_from(from.min(to));
        let shared = self.shared();
        let planes = self.heads.iter_mut().flat_map(Head::planes_mut);
        planes.for_each(|plane| plane.copy_slot(from - shared, to - shared));
        Ok(())
    }

    fn copy_rows(&mut self, from: &mut dyn KvCache, slots: Range<usize>) -> Result<bool, Error> {
        let Some(from) = from.as_any().downcast_ref::<Self>() else { return Ok(false) };
        if !(self.shares_with(from) || self.base.is_none() && from.base.is_none()) {
            return Ok(false);
        }
        self.reserve(slots.end);
        let shared = self.shared();
        let own = slots.start.max(shared) - shared..slots.end.max(shared) - shared;
        let heads = self.heads.iter_mut().zip(&from.heads);
        heads.for_each(|(to, from)| to.copy(from, own.clone(), own.start));
        Ok(true)
    }

    fn fork(&self, slots: usize) -> Result<Box<dyn KvCache>, Error> {
        let own = slots.saturating_sub(self.shared());
        let room = own.max(1).next_multiple_of(BLOCK);
        let heads = self.heads.iter().map(|head| head.resized(own, room)).collect();
        Ok(Box::new(Self { heads, room, base: self.base.clone(), ..*self }))
    }

    fn share(&mut self, slots: usize, held: usize) -> Result<Box<dyn KvCache>, Error> {
        self.freeze(slots, held);
        self.fork(slots)
    }

    fn key(&self, slots: usize) -> Vec<u8> {
        let mut kept = self.copied(slots, slots);
        let planes = kept.iter_mut().flat_map(Head::planes_mut);
        planes.flat_map(|plane| plane.bytes()).copied().collect()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
