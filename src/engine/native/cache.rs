//! Keys and values by slot, in tiles that the kernels of the products can read.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use super::kv_store::Head;
use crate::core::error::Error;
use crate::core::lanes::LANES;
use crate::engine::decoder::{Config, HeadSizes};
use crate::model::{CacheDtype, KvCache};

/// Slots are allocated in multiples of this many: a context of 128k positions
/// costs memory only as far as it is used.
const BLOCK: usize = 256;

/// Room for `slots` slots, and at least one, as it is allocated.
fn whole_blocks(slots: usize) -> usize {
    slots.max(1).next_multiple_of(BLOCK)
}

/// The cache of one sequence: slots with which others begin, too, and slots of its own.
#[derive(Debug)]
pub(super) struct NativeCache {
    /// By layer, the number of its first head among all.
    places: Arc<[usize]>,
    base: Option<Arc<SharedSlots>>,
    /// Own slots that there is room for.
    room: usize,
    /// Slots, shared and own ones, that the text may come to need.
    expected: usize,
    /// The own slots, head by head, of the layers that store any.
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
    /// An empty cache for the layers of a decoder. A layer that attends to the keys of another one
    /// has the heads of that.
    pub(super) fn new(config: &Config, dtype: CacheDtype) -> Self {
        let (mut heads, mut places) = (Vec::new(), Vec::<usize>::new());
        for layer in 0..config.layers.len() {
            let HeadSizes { keys, width, .. } = config.heads_of(layer);
            match config.cached(layer) {
                below if below < layer => places.push(places[below]),
                _ => {
                    places.push(heads.len());
                    heads.extend((0..keys).map(|_| Head::new(dtype, width, BLOCK)));
                }
            }
        }
        Self { places: places.into(), base: None, room: BLOCK, expected: 0, heads }
    }

    /// Number of slots that are shared; the others are its own.
    pub(super) fn shared(&self) -> usize {
        self.base.as_ref().map_or(0, |base| base.slots)
    }

    /// The shared slots of a head of a layer, if there are any.
    pub(super) fn shared_head(&self, layer: usize, head: usize) -> Option<&Head> {
        self.base.as_ref().map(|base| &base.heads[self.places[layer] + head])
    }

    /// The own slots of a head of a layer, the first of which follows the shared ones.
    pub(super) fn head(&self, layer: usize, head: usize) -> &Head {
        &self.heads[self.places[layer] + head]
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
            self.grow(own.max(2 * self.room));
        }
    }

    fn grow(&mut self, own: usize) {
        let room = whole_blocks(own);
        for head in &mut self.heads {
            *head = head.resized(self.room, room);
        }
        self.room = room;
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

    /// The first `slots` slots, with room for `expected`.
    fn copy_expecting(&self, expected: usize, slots: usize) -> Self {
        let [own, room] = [slots, slots.max(expected)].map(|n| n.saturating_sub(self.shared()));
        let room = whole_blocks(room);
        let heads = self.heads.iter().map(|head| head.resized(own, room)).collect();
        Self { places: Arc::clone(&self.places), base: self.base.clone(), room, expected, heads }
    }

    /// Turns whole tiles of the first `slots` of the `held` slots into shared ones, if none are
    /// shared yet.
    fn freeze(&mut self, slots: usize, held: usize) {
        let shared = slots.min(held) / LANES * LANES;
        if self.base.is_some() || shared == 0 {
            return;
        }
        let room = whole_blocks(held.max(self.expected) - shared);
        let mut own = self.heads.iter().map(|head| head.resized(0, room)).collect::<Vec<_>>();
        for (own, all) in own.iter_mut().zip(&self.heads) {
            own.copy(all, shared..held, 0);
        }
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
        for plane in planes {
            plane.copy_slot(from - shared, to - shared);
        }
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
        for (to, from) in heads {
            to.copy(from, own.clone(), own.start);
        }
        Ok(true)
    }

    fn expect(&mut self, slots: usize) -> Result<(), Error> {
        self.expected = slots;
        let own = slots.saturating_sub(self.shared());
        if own > self.room {
            self.grow(own);
        }
        Ok(())
    }

    fn try_clone(&self, slots: usize) -> Result<Box<dyn KvCache>, Error> {
        Ok(Box::new(self.copy_expecting(self.expected, slots)))
    }

    fn share(&mut self, slots: usize, held: usize) -> Result<Box<dyn KvCache>, Error> {
        self.freeze(slots, held);
        Ok(Box::new(self.copy_expecting(0, slots)))
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEADS: (usize, usize) = (2, 24);

    /// An empty cache of some layers.
    fn empty(layers: usize, dtype: CacheDtype) -> NativeCache {
        let (count, width) = HEADS;
        let heads = (0..layers * count).map(|_| Head::new(dtype, width, BLOCK)).collect();
        let places = (0..layers).map(|layer| layer * count).collect();
        NativeCache { places, base: None, room: BLOCK, expected: 0, heads }
    }

    /// A cache whose first `slots` slots hold different numbers.
    fn filled(dtype: CacheDtype, slots: usize) -> NativeCache {
        let mut cache = empty(3, dtype);
        fill(&mut cache, 0..slots);
        cache
    }

    fn fill(cache: &mut NativeCache, slots: Range<usize>) {
        cache.reserve(slots.end);
        let first = cache.shared();
        for (number, head) in cache.heads.iter_mut().enumerate() {
            for slot in slots.clone() {
                let row = (0..HEADS.1).map(|i| (slot * 7 + number * 3 + i) as f32 / 64.0);
                let row = row.collect::<Vec<_>>();
                head.set(slot - first, &row, &row);
            }
        }
    }

    fn own(cache: Box<dyn KvCache>) -> NativeCache {
        let mut cache = cache;
        std::mem::replace(cache.as_any().downcast_mut().unwrap(), empty(0, CacheDtype::F32))
    }

    /// Fills the slots `slots` and returns how often the cache had to grow.
    fn growths(cache: &mut NativeCache, slots: Range<usize>) -> usize {
        let grows = |slot| {
            let room = cache.room;
            fill(cache, slot..slot + 1);
            usize::from(cache.room != room)
        };
        slots.map(grows).sum()
    }

    /// Catches: a fork, or what shares, has room for the length of another sequence; sharing gives
    /// up room; what is expected is only noted; growth or a copy loses the last slots.
    #[test]
    fn what_is_expected_comes_without_growth() {
        for dtype in [CacheDtype::F32, CacheDtype::F16, CacheDtype::Q8_0] {
            let plain = filled(dtype, 1100);
            let mut grown = filled(dtype, 250);
            assert_eq!(growths(&mut grown, 250..1100), 3);
            let mut cache = filled(dtype, 250);
            cache.expect(1100).unwrap();
            let mut fork = own(cache.try_clone(250).unwrap());
            let mut shared = own(cache.share(250, 250).unwrap());
            assert!(cache.shares_with(&shared) && !fork.shares_with(&shared));
            // The slots that follow the shared ones have room of their own.
            assert_eq!((cache.room, fork.room, shared.room), (1024, 1280, 256));
            shared.expect(1100).unwrap();
            for cache in [&mut cache, &mut fork, &mut shared] {
                assert_eq!(growths(cache, 250..1100), 0);
                assert!(cache.key(1100) == plain.key(1100), "{dtype:?}");
            }
            assert!(grown.key(1100) == plain.key(1100), "{dtype:?}");
            let mut late = own(shared.try_clone(1100).unwrap());
            assert_eq!(growths(&mut late, 1100..1265), 1);
            // What was expected is no limit.
            assert_eq!(growths(&mut shared, 1100..1265), 1);
            assert!(shared.key(1265) == late.key(1265), "{dtype:?}");
        }
    }

    /// Catches: own slots begin one tile late; a copy of shared slots lacks the own ones; rows come
    /// from a cache with another prompt.
    #[test]
    fn slots_are_shared_up_to_where_texts_part() {
        let mut cache = filled(CacheDtype::F32, 300);
        let mut other = own(cache.share(250, 300).unwrap());
        assert_eq!(other.shared(), 250 / LANES * LANES);
        // What the other text writes next makes nothing its own, and follows in a copy.
        other.own_from(250);
        fill(&mut other, 250..300);
        let mut stranger = filled(CacheDtype::F32, 300);
        assert!(other.shares_with(&cache) && other.key(300) == stranger.key(300));
        // Slots are copied from one that begins with the same ones alone.
        assert!(other.copy_rows(&mut cache, 240..300).unwrap());
        assert!(!other.copy_rows(&mut stranger, 240..300).unwrap());
        let _sharer = stranger.share(250, 300).unwrap();
        assert!(!other.copy_rows(&mut stranger, 240..300).unwrap());
    }

    /// Catches: twice as much room as is expected.
    #[test]
    fn room_is_as_much_as_is_expected_and_no_more() {
        let mut cache = filled(CacheDtype::F32, 300);
        assert_eq!(cache.room, 512);
        cache.expect(400).unwrap();
        assert_eq!(cache.room, 512);
        cache.expect(513).unwrap();
        assert_eq!(cache.room, 768);
        // Less than what is held: a copy has room for what it holds.
        cache.expect(10).unwrap();
        assert_eq!((cache.room, own(cache.try_clone(300).unwrap()).room), (768, 512));
    }
}
