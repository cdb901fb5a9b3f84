//! How the tensors of a product are stored side by side.

use super::matrix::{Matrix, WeightStorage};
use crate::core::lanes::LANES;
use crate::engine::Dtype;
use crate::engine::decoder::{Described, Tensors};

/// The order of the rows of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// As they are stored.
    AsStored,
    /// Tiles of both halves in turns, the last ones padded: gate and up projection.
    HalvesInTurns,
}

/// Neighbouring rows that are stored in the same way.
#[derive(Debug)]
pub(super) struct SegmentPlan {
    pub storage: WeightStorage,
    /// The tensors of these rows.
    pub tensors: Vec<Described>,
}

impl Order {
    /// The place of the first of some rows, from `row` on of `all`, and how many of them lie next
    /// to each other.
    pub(super) fn place(self, row: usize, all: usize) -> (usize, usize) {
        if self == Self::AsStored {
            return (row, all - row);
        }
        let half = all / 2;
        let (second, row) = if row < half { (0, row) } else { (1, row - half) };
        let (tile, lane) = (row / LANES, row % LANES);
        ((2 * tile + second) * LANES + lane, (LANES - lane).min(half - row))
    }

    /// The number of rows with padding.
    pub(super) fn outputs(self, rows: usize) -> usize {
        match self {
            Self::AsStored => rows,
            Self::HalvesInTurns => 2 * (rows / 2).next_multiple_of(LANES),
        }
    }
}

impl SegmentPlan {
    /// Bytes in memory of at most `most` rows.
    pub(super) fn bytes(&self, order: Order, most: usize) -> usize {
        let inputs = self.tensors.first().map_or(0, |(_, shape)| shape[1]);
        Matrix::bytes(self.storage, order.outputs(self.rows().min(most)), inputs)
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.tensors.iter().map(|(_, shape)| shape[0]).sum()
    }
}

/// How to store the tensors of a product. Those that stay as they are, but of several types,
/// become segments; where a segment would end within a tile, all of them become f32.
pub(super) fn plan(
    dtype: Dtype,
    tensors: &dyn Tensors,
    parts: Vec<Described>,
    order: Order,
) -> Vec<SegmentPlan> {
    let storage = |(name, shape): &Described| match dtype {
        Dtype::Stored => WeightStorage::of_tensor(tensors.kind(name)),
        _ => WeightStorage::of_numbers(dtype, shape[1]),
    };
    let mut segments: Vec<SegmentPlan> = Vec::new();
    let mut fits = true;
    for part in &parts {
        let storage = storage(part);
        match segments.last_mut().filter(|segment| segment.storage == storage) {
            Some(segment) => segment.tensors.push(part.clone()),
            None => {
                let rows = segments.iter().flat_map(|s| &s.tensors).map(|(_, shape)| shape[0]);
                fits &= rows.sum::<usize>().is_multiple_of(LANES);
                segments.push(SegmentPlan { storage, tensors: vec![part.clone()] });
            }
        }
    }
    if segments.len() > 1 && (!fits || order != Order::AsStored) {
        return vec![SegmentPlan { storage: WeightStorage::F32, tensors: parts }];
    }
    segments
}
