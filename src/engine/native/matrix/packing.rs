//! Packs weights.

use super::dense::{Bf16, F16, F32};
use super::e4m3::E4m3;
use super::large_blocks::{
    LargeAround, LargeUpward, TileOf3K, TileOf4K, TileOf5K, TileOf6K, TileOfIq4Xs,
};
use super::packed::{Matrix, Segment};
use super::q8::Q8;
use super::small_blocks::{
    Small, TileOf4_0, TileOf4_1, TileOf5_0, TileOf5_1, TileOf8_0, TileOfIq4Nl, TileOfMxfp4,
};
use super::storage::WeightStorage;
use super::zero_points::{TileOf4G32, TileOf4G128, ZeroPoints};
use super::{BlockFormat, NumberFormat};
use crate::core::lanes::{IsaKind, LANES};
use crate::engine::native::memory::{Part, Piece};

/// The weights of some outputs, one row of inputs each.
pub(in super::super) enum MatrixRows<'a> {
    /// As numbers, to be stored in one of the ways for numbers.
    Numbers(&'a [&'a [f32]]),
    /// As blocks of the type in which they are stored.
    Blocks(&'a [&'a [u8]]),
}

impl MatrixRows<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Numbers(rows) => rows.len(),
            Self::Blocks(rows) => rows.len(),
        }
    }
}

impl Matrix {
    /// A matrix without outputs, to be packed for an instruction set.
    pub(in super::super) fn new(isa: IsaKind, inputs: usize) -> Self {
        Self { outputs: 0, inputs, isa, segments: Vec::new() }
    }

    /// Packs further outputs; those before them must be whole tiles.
    pub(in super::super) fn extend(
        &mut self,
        memory: &mut Piece<'_>,
        storage: WeightStorage,
        rows: &MatrixRows<'_>,
    ) {
        let packing = TilePacking { memory, isa: self.isa, inputs: self.inputs };
        let steps = match (rows, storage) {
            (MatrixRows::Numbers(rows), WeightStorage::Bf16) => packing.numbers::<Bf16>(rows),
            (MatrixRows::Numbers(rows), WeightStorage::F16) => packing.numbers::<F16>(rows),
            (MatrixRows::Numbers(rows), WeightStorage::Q8) => packing.numbers::<Q8>(rows),
            (MatrixRows::Numbers(rows), _) => packing.numbers::<F32>(rows),
            (MatrixRows::Blocks(rows), _) => packing.blocks_of(storage, rows),
        };
        let first = self.tiles();
        self.outputs = first * LANES + rows.len();
        let tiles = first..self.tiles();
        self.segments.push(Segment { tiles, storage, steps });
    }
}

/// Where and how weights are packed.
struct TilePacking<'m, 'p> {
    memory: &'m mut Piece<'p>,
    isa: IsaKind,
    inputs: usize,
}

impl TilePacking<'_, '_> {
    fn numbers<S: NumberFormat>(self, rows: &[&[f32]]) -> Part {
        let Self { memory, isa, inputs } = self;
        let steps = inputs.div_ceil(S::INPUTS);
        let (part, to) = memory.take(rows.len().div_ceil(LANES) * steps);
        let nothing = vec![0.0; inputs];
        each_tile(to, steps, |tile, to| {
            let rows: [&[f32]; LANES] = std::array::from_fn(|lane| {
                rows.get(tile * LANES + lane).copied().unwrap_or(&nothing)
            });
            for (step, to) in to.iter_mut().enumerate() {
                let part = step * S::INPUTS..inputs.min((step + 1) * S::INPUTS);
                *to = S::pack(isa, rows.map(|row| &row[part.clone()]));
            }
        });
        part
    }

    fn blocks_of(self, storage: WeightStorage, rows: &[&[u8]]) -> Part {
        match storage {
            WeightStorage::Q4_0 => self.blocks::<Small<TileOf4_0>>(rows),
            WeightStorage::Q4_1 => self.blocks::<Small<TileOf4_1>>(rows),
            WeightStorage::Q5_0 => self.blocks::<Small<TileOf5_0>>(rows),
            WeightStorage::Q5_1 => self.blocks::<Small<TileOf5_1>>(rows),
            WeightStorage::Iq4Nl => self.blocks::<Small<TileOfIq4Nl>>(rows),
            WeightStorage::Q4K => self.blocks::<LargeUpward<TileOf4K>>(rows),
            WeightStorage::Q5K => self.blocks::<LargeUpward<TileOf5K>>(rows),
            WeightStorage::Q6K => self.blocks::<LargeAround<TileOf6K>>(rows),
            WeightStorage::Q3K => self.blocks::<LargeAround<TileOf3K>>(rows),
            WeightStorage::Iq4Xs => self.blocks::<LargeAround<TileOfIq4Xs>>(rows),
            WeightStorage::Mxfp4 => self.blocks::<Small<TileOfMxfp4>>(rows),
            WeightStorage::E4m3 => self.blocks::<E4m3>(rows),
            WeightStorage::U4G32 => self.blocks::<ZeroPoints<TileOf4G32>>(rows),
            WeightStorage::U4G128 => self.blocks::<ZeroPoints<TileOf4G128>>(rows),
            _ => self.blocks::<Small<TileOf8_0>>(rows),
        }
    }

    /// Rows without weights are zero. The last block of a row may be padded.
    fn blocks<S: BlockFormat>(self, rows: &[&[u8]]) -> Part {
        let steps = self.inputs.div_ceil(S::INPUTS);
        let (part, to) = self.memory.take::<S::Step>(rows.len().div_ceil(LANES) * steps);
        each_tile(to, steps, |tile, to| {
            let rows = rows[tile * LANES..].iter().take(LANES);
            for (lane, row) in rows.enumerate().filter(|(_, row)| !row.is_empty()) {
                let blocks = row.chunks_exact(row.len() / steps);
                for (step, block) in to.iter_mut().zip(blocks) {
                    S::put(step, lane, block);
                }
            }
        });
        part
    }
}

/// Calls a function for each tile of `steps` steps.
fn each_tile<T>(to: &mut [T], steps: usize, fill: impl Fn(usize, &mut [T])) {
    for (tile, to) in to.chunks_exact_mut(steps.max(1)).enumerate() {
        fill(tile, to);
    }
}
