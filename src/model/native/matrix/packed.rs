//! A weight matrix in memory, in one of the storage formats.

use super::dense::{Bf16, F16, F32};
use super::groups::Groups;
use super::q8::{self, Q8};
use super::{LANES, StorageFormat};
use crate::lanes::IsaKind;
use crate::model::Dtype;
use crate::model::native::memory::{Builder, Memory, Part};

/// A matrix of `outputs` rows and `inputs` columns, as in checkpoints, packed in tiles.
#[derive(Debug)]
pub(in super::super) struct Matrix {
    pub(super) outputs: usize,
    pub(super) inputs: usize,
    /// The instruction set for which it is packed.
    pub(super) isa: IsaKind,
    pub(super) weights: PackedWeights,
}

/// The steps of all tiles, tile by tile.
#[derive(Debug)]
pub(super) enum PackedWeights {
    F32(Part<<F32 as StorageFormat>::Step>),
    Bf16(Part<<Bf16 as StorageFormat>::Step>),
    F16(Part<<F16 as StorageFormat>::Step>),
    Q8(Part<<Q8 as StorageFormat>::Step>),
}

/// The form in which a matrix needs the values of each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// This many chunks of f32.
    Chunks(usize),
    /// This many quantised blocks.
    Blocks(usize),
}

impl Input {
    /// The number of them.
    pub(super) fn per_row(self) -> usize {
        match self {
            Self::Chunks(count) | Self::Blocks(count) => count,
        }
    }
}

impl Matrix {
    /// Bytes that a packed matrix takes in memory.
    pub(in super::super) fn bytes(outputs: usize, inputs: usize, dtype: Dtype) -> usize {
        fn bytes<S: StorageFormat>(outputs: usize, inputs: usize) -> usize {
            Part::<S::Step>::bytes(outputs.div_ceil(LANES) * inputs.div_ceil(S::INPUTS))
        }
        match dtype.stored(inputs) {
            Dtype::F32 => bytes::<F32>(outputs, inputs),
            Dtype::Bf16 => bytes::<Bf16>(outputs, inputs),
            Dtype::F16 => bytes::<F16>(outputs, inputs),
            Dtype::Q8_0 => bytes::<Q8>(outputs, inputs),
        }
    }

    /// Packs a matrix of at least one row, one row of `inputs` weights per output, for an
    /// instruction set.
    pub(in super::super) fn pack(
        memory: &mut Builder,
        rows: &[&[f32]],
        inputs: usize,
        (isa, dtype): (IsaKind, Dtype),
    ) -> Self {
        let weights = match dtype.stored(inputs) {
            Dtype::F32 => PackedWeights::F32(pack::<F32>(memory, isa, rows, inputs)),
            Dtype::Bf16 => PackedWeights::Bf16(pack::<Bf16>(memory, isa, rows, inputs)),
            Dtype::F16 => PackedWeights::F16(pack::<F16>(memory, isa, rows, inputs)),
            Dtype::Q8_0 => PackedWeights::Q8(pack::<Q8>(memory, isa, rows, inputs)),
        };
        Self { outputs: rows.len(), inputs, isa, weights }
    }

    /// Writes the weights of one output to `row`, as the products use them.
    pub(in super::super) fn unpack(&self, memory: &Memory, output: usize, row: &mut [f32]) {
        match &self.weights {
            PackedWeights::F32(part) => unpack::<F32>(self.isa, memory.get(part), output, row),
            PackedWeights::Bf16(part) => unpack::<Bf16>(self.isa, memory.get(part), output, row),
            PackedWeights::F16(part) => unpack::<F16>(self.isa, memory.get(part), output, row),
            PackedWeights::Q8(part) => unpack::<Q8>(self.isa, memory.get(part), output, row),
        }
    }

    /// The form in which it needs the values of each row.
    pub(super) fn input(&self) -> Input {
        match &self.weights {
            PackedWeights::F32(_) | PackedWeights::Bf16(_) | PackedWeights::F16(_) => {
                Input::Chunks(self.inputs.div_ceil(LANES))
            }
            PackedWeights::Q8(_) => Input::Blocks(self.inputs / q8::BLOCK),
        }
    }

    /// The groups of rows in which it is multiplied.
    pub(super) fn groups(&self) -> Groups {
        match &self.weights {
            PackedWeights::F32(_) => Groups::new::<F32>(self.isa),
            PackedWeights::Bf16(_) => Groups::new::<Bf16>(self.isa),
            PackedWeights::F16(_) => Groups::new::<F16>(self.isa),
            PackedWeights::Q8(_) => Groups::new::<Q8>(self.isa),
        }
    }

    /// Number of outputs.
    pub(in super::super) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Number of inputs.
    pub(in super::super) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Number of tiles.
    pub(super) fn tiles(&self) -> usize {
        self.outputs.div_ceil(LANES)
    }

    /// Bytes of one tile.
    pub(super) fn tile_bytes(&self) -> usize {
        let bytes = match &self.weights {
            PackedWeights::F32(part) => part.len_bytes(),
            PackedWeights::Bf16(part) => part.len_bytes(),
            PackedWeights::F16(part) => part.len_bytes(),
            PackedWeights::Q8(part) => part.len_bytes(),
        };
        bytes / self.tiles().max(1)
    }
}

fn pack<S: StorageFormat>(
    memory: &mut Builder,
    isa: IsaKind,
    rows: &[&[f32]],
    inputs: usize,
) -> Part<S::Step> {
    let steps = inputs.div_ceil(S::INPUTS);
    let (part, to) = memory.take(rows.len().div_ceil(LANES) * steps);
    let nothing = vec![0.0; inputs];
    for (to, rows) in to.chunks_exact_mut(steps).zip(rows.chunks(LANES)) {
        let rows: [&[f32]; LANES] =
            std::array::from_fn(|lane| rows.get(lane).copied().unwrap_or(&nothing));
        for (step, to) in to.iter_mut().enumerate() {
            let part = step * S::INPUTS..inputs.min((step + 1) * S::INPUTS);
            *to = S::pack(isa, rows.map(|row| &row[part.clone()]));
        }
    }
    part
}

fn unpack<S: StorageFormat>(isa: IsaKind, steps: &[S::Step], output: usize, row: &mut [f32]) {
    let count = row.len().div_ceil(S::INPUTS);
    let tile = &steps[output / LANES * count..][..count];
    let weights = tile.iter().flat_map(|step| S::unpack(isa, step, output % LANES));
    row.iter_mut().zip(weights).for_each(|(to, weight)| *to = weight);
}
