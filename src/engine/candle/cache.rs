//! Keys and values by slot, preallocated in blocks.

use std::any::Any;
use std::ops::Range;

use candle_core::{DType, Device, Tensor};

use crate::core::error::Error;
use crate::engine::decoder::{Config, HeadSizes};
use crate::model::KvCache;

/// Rows are allocated in multiples of this many: a context of 128k positions
/// costs memory only as far as it is used.
const BLOCK: usize = 256;

/// The cache of one sequence.
#[derive(Debug)]
pub(super) struct CandleCache {
    /// The layers that store keys and values.
    layers: Vec<LayerCache>,
    /// By layer of the decoder, the number of the one among them that it attends to.
    places: Vec<usize>,
    /// Rows that the text may come to need.
    expected: usize,
}

/// Keys and values of one layer, each of shape `(kv_heads, rows, head_dim)`;
/// the row of a token is its slot.
#[derive(Debug)]
pub(super) struct LayerCache {
    keys: Tensor,
    values: Tensor,
}

/// Consecutive rows of a pass that go to consecutive slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotRun {
    /// First row of the pass.
    pub row: usize,
    /// First slot.
    pub slot: usize,
    /// Number of rows.
    pub len: usize,
}

/// Groups the slots of a pass, given in the order of its rows, into runs.
pub(super) fn runs(slots: impl IntoIterator<Item = usize>) -> Vec<SlotRun> {
    let mut runs: Vec<SlotRun> = Vec::new();
    for (row, slot) in slots.into_iter().enumerate() {
        match runs.last_mut().filter(|run| run.slot + run.len == slot) {
            Some(run) => run.len += 1,
            None => runs.push(SlotRun { row, slot, len: 1 }),
        }
    }
    runs
}

impl CandleCache {
    /// An empty cache for the layers of a decoder.
    pub(super) fn new(config: &Config, device: &Device) -> Result<Self, Error> {
        let (mut layers, mut places) = (Vec::new(), Vec::new());
        for layer in 0..config.layers.len() {
            let HeadSizes { keys, width, .. } = config.heads_of(layer);
            match config.cached(layer) {
                below if below < layer => places.push(places[below]),
                _ => {
                    places.push(layers.len());
                    layers.push(LayerCache::new(keys, BLOCK, width, device)?);
                }
            }
        }
        Ok(Self { layers, places, expected: 0 })
    }

    /// The keys and values that a layer attends to.
    pub(super) fn of_layer(&self, layer: usize) -> &LayerCache {
        &self.layers[self.places[layer]]
    }

    /// Makes room for the slots below `slots`.
    pub(super) fn reserve(&mut self, slots: usize) -> Result<(), Error> {
        // Doubling keeps the total cost of copying linear in the length of the text.
        for layer in &mut self.layers {
            layer.reserve(slots, 2)?;
        }
        Ok(())
    }

    /// The first `slots` rows, with room for `expected`.
    fn copy_expecting(&self, expected: usize, slots: usize) -> Result<Self, Error> {
        let layers = self.layers.iter().map(|layer| layer.copy(slots, slots.max(expected)));
        let layers = layers.collect::<Result<_, Error>>()?;
        Ok(Self { layers, places: self.places.clone(), expected })
    }
}

impl LayerCache {
    fn new(kv_heads: usize, rows: usize, head_dim: usize, device: &Device) -> Result<Self, Error> {
        let zeros = || Tensor::zeros((kv_heads, rows, head_dim), DType::F32, device);
        Ok(Self { keys: zeros()?, values: zeros()? })
    }

    /// Makes room for the slots below `slots`: if it has to grow, at least `factor` times as
    /// much as before.
    fn reserve(&mut self, slots: usize, factor: usize) -> Result<(), Error> {
        let rows = self.keys.dim(1)?;
        if slots <= rows {
            return Ok(());
        }
        *self = self.copy(rows, slots.max(factor * rows))?;
        Ok(())
    }

    /// A copy of the first `slots` slots, with room for `room`.
    fn copy(&self, slots: usize, room: usize) -> Result<Self, Error> {
        let (kv_heads, _, head_dim) = self.keys.dims3()?;
        let rows = room.max(1).next_multiple_of(BLOCK);
        let new = Self::new(kv_heads, rows, head_dim, self.keys.device())?;
        if slots > 0 {
            let (keys, values) = self.read(slots)?;
            new.keys.slice_set(&keys.force_contiguous()?, 1, 0)?;
            new.values.slice_set(&values.force_contiguous()?, 1, 0)?;
        }
        Ok(new)
    }

    /// Stores the rows of a pass; `keys` and `values` are contiguous and of
    /// shape `(kv_heads, rows, head_dim)`.
    pub(super) fn write(
        &self,
        runs: &[SlotRun],
        keys: &Tensor,
        values: &Tensor,
    ) -> Result<(), Error> {
        for run in runs {
            let part = |rows: &Tensor| rows.narrow(1, run.row, run.len)?.contiguous();
            self.keys.slice_set(&part(keys)?, 1, run.slot)?;
            self.values.slice_set(&part(values)?, 1, run.slot)?;
        }
        Ok(())
    }

    /// Keys and values in the slots below `slots`, without a copy.
    pub(super) fn read(&self, slots: usize) -> Result<(Tensor, Tensor), Error> {
        Ok((self.keys.narrow(1, 0, slots)?, self.values.narrow(1, 0, slots)?))
    }

    fn tensors(&self) -> [&Tensor; 2] {
        [&self.keys, &self.values]
    }
}

impl KvCache for CandleCache {
    fn copy_row(&mut self, from: usize, to: usize) -> Result<(), Error> {
        for tensor in self.layers.iter().flat_map(LayerCache::tensors) {
            // A tensor cannot be read and written at once, hence the copy.
            let row = tensor.narrow(1, from, 1)?.force_contiguous()?;
            tensor.slice_set(&row, 1, to)?;
        }
        Ok(())
    }

    fn copy_rows(&mut self, from: &mut dyn KvCache, slots: Range<usize>) -> Result<bool, Error> {
        let Some(from) = from.as_any().downcast_mut::<Self>() else { return Ok(false) };
        self.reserve(slots.end)?;
        let tensors = self.layers.iter().flat_map(LayerCache::tensors);
        for (to, from) in tensors.zip(from.layers.iter().flat_map(LayerCache::tensors)) {
            if !slots.is_empty() {
                let rows = from.narrow(1, slots.start, slots.len())?.force_contiguous()?;
                to.slice_set(&rows, 1, slots.start)?;
            }
        }
        Ok(true)
    }

    fn expect(&mut self, slots: usize) -> Result<(), Error> {
        self.expected = slots;
        for layer in &mut self.layers {
            layer.reserve(slots, 1)?;
        }
        Ok(())
    }

    fn try_clone(&self, slots: usize) -> Result<Box<dyn KvCache>, Error> {
        Ok(Box::new(self.copy_expecting(self.expected, slots)?))
    }

    fn share(&mut self, slots: usize, _held: usize) -> Result<Box<dyn KvCache>, Error> {
        Ok(Box::new(self.copy_expecting(0, slots)?))
    }

    fn key(&self, slots: usize) -> Vec<u8> {
        let rows = |tensor: &Tensor| tensor.narrow(1, 0, slots)?.flatten_all()?.to_vec1::<f32>();
        self.layers
            .iter()
            .flat_map(LayerCache::tensors)
            // A tensor that cannot be read adds nothing to the key.
            .flat_map(|tensor| rows(tensor).unwrap_or_default())
            .flat_map(f32::to_le_bytes)
            .collect()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(cache: &CandleCache) -> Vec<usize> {
        cache.layers.iter().map(|layer| layer.keys.dim(1).unwrap()).collect()
    }

    #[test]
    fn what_is_expected_has_room_at_once_and_keeps_its_rows() {
        let layer = || LayerCache::new(2, BLOCK, 8, &Device::Cpu).unwrap();
        let (layers, places) = (vec![layer(), layer()], vec![0, 1]);
        let mut cache = CandleCache { layers, places, expected: 0 };
        cache.reserve(257).unwrap();
        assert_eq!(rows_of(&cache), [512; 2]);
        let layer = &cache.layers[1];
        let numbers = Tensor::arange(0.0f32, 2.0 * 300.0 * 8.0, &Device::Cpu).unwrap();
        let rows = numbers.reshape((2, 300, 8)).unwrap();
        layer.write(&[SlotRun { row: 0, slot: 0, len: 300 }], &rows, &rows).unwrap();
        let key = cache.key(300);
        cache.expect(1100).unwrap();
        assert_eq!((rows_of(&cache), cache.key(300) == key), (vec![1280; 2], true));
        let [mut fork, mut shared] =
            [cache.try_clone(300), cache.share(300, 300)].map(Result::unwrap);
        let rooms = [&mut fork, &mut shared].map(|copy| {
            assert!(copy.key(300) == key);
            rows_of(copy.as_any().downcast_ref().unwrap())
        });
        assert_eq!(rooms, [vec![1280; 2], vec![512; 2]]);
    }
}
