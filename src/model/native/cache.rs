//! Keys and values by slot, in tiles that the kernels of the products can read.

use std::any::Any;
use std::ops::Range;

use super::head::Head;
use crate::error::Error;
use crate::model::{CacheDtype, KvCache};

/// Slots are allocated in multiples of this many: a context of 128k positions
/// costs memory only as far as it is used.
const BLOCK: usize = 256;

/// The cache of one sequence.
#[derive(Debug)]
pub(super) struct NativeCache {
    kv_heads: usize,
    slots: usize,
    /// Layer by layer, head by head.
    heads: Vec<Head>,
}

impl NativeCache {
    pub(super) fn new(
        layers: usize,
        (kv_heads, head_dim): (usize, usize),
        dtype: CacheDtype,
    ) -> Self {
        let heads = (0..layers * kv_heads).map(|_| Head::new(dtype, head_dim, BLOCK)).collect();
        Self { kv_heads, slots: BLOCK, heads }
    }

    /// The head of a layer.
    pub(super) fn head(&self, layer: usize, head: usize) -> &Head {
        &self.heads[layer * self.kv_heads + head]
    }

    /// Makes room for the slots below `slots`.
    pub(super) fn reserve(&mut self, slots: usize) {
        if slots > self.slots {
            // Doubling keeps the total cost of copying linear in the length of the
            // text.
            let room = slots.max(2 * self.slots).next_multiple_of(BLOCK);
            for head in &mut self.heads {
                *head = head.resized(self.slots, room);
            }
            self.slots = room;
        }
    }
}

impl KvCache for NativeCache {
    fn copy_row(&mut self, from: usize, to: usize) -> Result<(), Error> {
        let planes = self.heads.iter_mut().flat_map(Head::planes_mut);
        planes.for_each(|plane| plane.copy_slot(from, to));
        Ok(())
    }

    fn copy_rows(&mut self, from: &mut dyn KvCache, slots: Range<usize>) -> Result<bool, Error> {
        let Some(from) = from.as_any().downcast_ref::<Self>() else { return Ok(false) };
        self.reserve(slots.end);
        let to = self.heads.iter_mut().flat_map(Head::planes_mut);
        let from = from.heads.iter().flat_map(Head::planes);
        to.zip(from).for_each(|(to, from)| to.copy(from, slots.clone()));
        Ok(true)
    }

    fn fork(&self, slots: usize) -> Result<Box<dyn KvCache>, Error> {
        let room = slots.max(1).next_multiple_of(BLOCK);
        let heads = self.heads.iter().map(|head| head.resized(slots, room)).collect();
        Ok(Box::new(Self { heads, slots: room, ..*self }))
    }

    fn key(&self, slots: usize) -> Vec<u8> {
        let mut kept = self.heads.iter().map(|head| head.resized(slots, slots)).collect::<Vec<_>>();
        let planes = kept.iter_mut().flat_map(Head::planes_mut);
        planes.flat_map(|plane| plane.bytes()).copied().collect()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
