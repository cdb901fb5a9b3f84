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
use super::storage::{WeightStorage, WithFormat};
use super::zero_points::{TileOf4G32, TileOf4G128, ZeroPoints};
use super::{BlockFormat, NumberFormat, StorageFormat};
use crate::core::lanes::{IsaKind, LANES};
use crate::engine::blocks::{SomeRows, TensorKind};
use crate::engine::native::memory::{Part, Piece};

/// Steps that are packed for all rows of a tile before the next ones are: they stay in the cache.
const STEPS_AT_ONCE: usize = 64;

/// Outputs of a matrix that are being packed.
pub(in super::super) struct Filling<'m> {
    steps: &'m mut [u8],
    storage: WeightStorage,
    isa: IsaKind,
    inputs: usize,
}

/// Which rows are packed: as many as there are outputs from the first on.
#[derive(Clone, Copy)]
struct Rows<'a, T> {
    first: usize,
    count: usize,
    weights: &'a [T],
}

impl Matrix {
    /// A matrix without outputs, to be packed for an instruction set.
    pub(in super::super) fn new(isa: IsaKind, inputs: usize) -> Self {
        Self { outputs: 0, inputs, isa, segments: Vec::new() }
    }

    /// Adds outputs that are stored in the same way, to be filled; those before them must be whole
    /// tiles. Weights are zero until then.
    pub(in super::super) fn extend<'m>(
        &mut self,
        memory: &mut Piece<'m>,
        storage: WeightStorage,
        outputs: usize,
    ) -> Filling<'m> {
        let (isa, inputs) = (self.isa, self.inputs);
        let (part, steps) = storage.with(Steps { memory, tiles: outputs.div_ceil(LANES), inputs });
        let first = self.tiles();
        self.outputs = first * LANES + outputs;
        let tiles = first..self.tiles();
        self.segments.push(Segment { tiles, storage, steps: part });
        Filling { steps, storage, isa, inputs }
    }
}

/// Takes memory for the steps of tiles.
struct Steps<'p, 'm> {
    memory: &'p mut Piece<'m>,
    tiles: usize,
    inputs: usize,
}

impl<'m> WithFormat for Steps<'_, 'm> {
    type Output = (Part, &'m mut [u8]);

    fn with<S: StorageFormat>(self) -> Self::Output {
        let steps = self.tiles * self.inputs.div_ceil(S::INPUTS);
        let (part, steps) = self.memory.take::<S::Step>(steps);
        (part, bytemuck::cast_slice_mut(steps))
    }
}

impl Filling<'_> {
    /// Packs `count` rows as the outputs from `first` on: numbers, or what is stored in the type of
    /// this storage.
    pub(in super::super) fn put(&mut self, first: usize, count: usize, rows: SomeRows<'_>) {
        match rows {
            SomeRows::Numbers(weights) => self.put_numbers(Rows { first, count, weights }),
            SomeRows::Stored(weights) => self.put_stored(Rows { first, count, weights }),
        }
    }

    /// Whether rows of a type can be packed as they are stored.
    pub(in super::super) fn takes(&self, kind: TensorKind) -> bool {
        // A row of bf16 with an odd number of inputs is no whole number of steps.
        let is_whole = self.storage != WeightStorage::Bf16 || self.inputs.is_multiple_of(2);
        is_whole && self.storage == WeightStorage::of_tensor(kind)
    }

    fn put_numbers(&mut self, rows: Rows<'_, f32>) {
        match self.storage {
            WeightStorage::Bf16 => self.numbers::<Bf16>(rows),
            WeightStorage::F16 => self.numbers::<F16>(rows),
            WeightStorage::Q8 => self.numbers::<Q8>(rows),
            _ => self.numbers::<F32>(rows),
        }
    }

    fn put_stored(&mut self, rows: Rows<'_, u8>) {
        match self.storage {
            WeightStorage::F32 => self.stored::<F32>(rows),
            WeightStorage::F16 => self.stored::<F16>(rows),
            WeightStorage::Bf16 => self.stored::<Bf16>(rows),
            WeightStorage::Q4_0 => self.stored::<Small<TileOf4_0>>(rows),
            WeightStorage::Q4_1 => self.stored::<Small<TileOf4_1>>(rows),
            WeightStorage::Q5_0 => self.stored::<Small<TileOf5_0>>(rows),
            WeightStorage::Q5_1 => self.stored::<Small<TileOf5_1>>(rows),
            WeightStorage::Iq4Nl => self.stored::<Small<TileOfIq4Nl>>(rows),
            WeightStorage::Q4K => self.stored::<LargeUpward<TileOf4K>>(rows),
            WeightStorage::Q5K => self.stored::<LargeUpward<TileOf5K>>(rows),
            WeightStorage::Q6K => self.stored::<LargeAround<TileOf6K>>(rows),
            WeightStorage::Q3K => self.stored::<LargeAround<TileOf3K>>(rows),
            WeightStorage::Iq4Xs => self.stored::<LargeAround<TileOfIq4Xs>>(rows),
            WeightStorage::Mxfp4 => self.stored::<Small<TileOfMxfp4>>(rows),
            WeightStorage::E4m3 => self.stored::<E4m3>(rows),
            WeightStorage::U4G32 => self.stored::<ZeroPoints<TileOf4G32>>(rows),
            WeightStorage::U4G128 => self.stored::<ZeroPoints<TileOf4G128>>(rows),
            WeightStorage::Q8 | WeightStorage::Q8_0 => self.stored::<Small<TileOf8_0>>(rows),
        }
    }

    fn numbers<S: NumberFormat>(&mut self, rows: Rows<'_, f32>) {
        let (isa, inputs) = (self.isa, self.inputs);
        self.each::<S, f32>(rows, S::INPUTS.min(inputs), |step, lane, weights| {
            S::put_numbers(isa, step, lane, weights);
        });
    }

    /// The last block of a row may be padded.
    fn stored<S: BlockFormat>(&mut self, rows: Rows<'_, u8>) {
        let width = rows.weights.len() / rows.count.max(1);
        let block = width / self.inputs.div_ceil(S::INPUTS).max(1);
        self.each::<S, u8>(rows, block, S::put);
    }

    /// Calls `put` for all steps of all rows, with the row's weights of a step.
    fn each<S: StorageFormat, T>(
        &mut self,
        Rows { first, count, weights }: Rows<'_, T>,
        per_step: usize,
        put: impl Fn(&mut S::Step, usize, &[T]),
    ) {
        let steps = self.inputs.div_ceil(S::INPUTS);
        let width = weights.len() / count.max(1);
        let all = bytemuck::cast_slice_mut::<u8, S::Step>(self.steps);
        let mut row = 0;
        while row < count {
            let (tile, lane) = ((first + row) / LANES, (first + row) % LANES);
            let lanes = (LANES - lane).min(count - row);
            let tile = all[tile * steps..][..steps].chunks_mut(STEPS_AT_ONCE).enumerate();
            for (part, to) in tile {
                for i in 0..lanes {
                    let row = &weights[(row + i) * width..(row + i + 1) * width];
                    let from = &row[part * STEPS_AT_ONCE * per_step..];
                    for (step, weights) in to.iter_mut().zip(from.chunks(per_step)) {
                        put(step, lane + i, weights);
                    }
                }
            }
            row += lanes;
        }
    }
}
