//! Keys and values by slot, preallocated in blocks.

use std::any::Any;
use std::ops::Range;

use candle_core::{DType, Device, Tensor};

use crate::error::Error;
use crate::model::KvCache;

/// Rows are allocated in multiples of this many: a context of 128k positions
/// costs memory only as far as it is used.
const BLOCK: usize = 256;

/// The cache of one sequence.
#[derive(Debug)]
pub(super) struct CandleCache {
    layers: Vec<LayerCache>,
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
    pub(super) fn new(
        layers: usize,
        kv_heads: usize,
        head_dim: usize,
        device: &Device,
    ) -> Result<Self, Error> {
        let layer = || LayerCache::new(kv_heads, BLOCK, head_dim, device);
        Ok(Self { layers: (0..layers).map(|_| layer()).collect::<Result<_, _>>()? })
    }

    pub(super) fn layers(&self) -> &[LayerCache] {
        &self.layers
    }

    /// Makes room for the slots below `slots`.
    pub(super) fn reserve(&mut self, slots: usize) -> Result<(), Error> {
        self.layers.iter_mut().try_for_each(|layer| layer.reserve(slots))
    }
}

impl LayerCache {
    fn new(kv_heads: usize, rows: usize, head_dim: usize, device: &Device) -> Result<Self, Error> {
        let zeros = || Tensor::zeros((kv_heads, rows, head_dim), DType::F32, device);
        Ok(Self { keys: zeros()?, values: zeros()? })
    }

    fn reserve(&mut self, slots: usize) -> Result<(), Error> {
        let (kv_heads, rows, head_dim) = self.keys.dims3()?;
        if slots <= rows {
            return Ok(());
        }
        // Doubling keeps the total cost of copying linear in the length of the text.
        let rows = slots.max(2 * rows).next_multiple_of(BLOCK);
        let grown = Self::new(kv_heads, rows, head_dim, self.keys.device())?;
        grown.keys.slice_set(&self.keys, 1, 0)?;
        grown.values.slice_set(&self.values, 1, 0)?;
        *self = grown;
        Ok(())
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

    fn fork(&self, slots: usize) -> Result<Box<dyn KvCache>, Error> {
        let copy = |layer: &LayerCache| {
            let (kv_heads, _, head_dim) = layer.keys.dims3()?;
            let rows = slots.max(1).next_multiple_of(BLOCK);
            let new = LayerCache::new(kv_heads, rows, head_dim, layer.keys.device())?;
            if slots > 0 {
                let (keys, values) = layer.read(slots)?;
                new.keys.slice_set(&keys.force_contiguous()?, 1, 0)?;
                new.values.slice_set(&values.force_contiguous()?, 1, 0)?;
            }
            Ok(new)
        };
        let layers = self.layers.iter().map(copy).collect::<Result<_, Error>>()?;
        Ok(Box::new(Self { layers }))
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
