//! The ways to store a matrix, by dtype and by the types of GGUF files.

use super::StorageFormat;
use super::dense::{Bf16, F16, F32};
use super::e4m3::E4m3;
use super::large_blocks::{
    LargeAround, LargeUpward, TileOf3K, TileOf4K, TileOf5K, TileOf6K, TileOfIq4Xs,
};
use super::q8::Q8;
use super::small_blocks::{
    Small, TileOf4_0, TileOf4_1, TileOf5_0, TileOf5_1, TileOf8_0, TileOfIq4Nl, TileOfMxfp4,
};
use super::zero_points::{TileOf4G32, TileOf4G128, ZeroPoints};
use crate::engine::Dtype;
use crate::engine::blocks::TensorKind;

/// How a matrix, or a part of it, is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum WeightStorage {
    /// Four bytes per weight.
    F32,
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    F16,
    /// Blocks of signed bytes, which are quantised here.
    Q8,
    /// Blocks of a file: see [`TensorKind`].
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Iq4Nl,
    Q4K,
    Q5K,
    Q6K,
    Q3K,
    Iq4Xs,
    Mxfp4,
    E4m3,
    U4G32,
    U4G128,
}

/// Something to be done with a format, whichever it is.
pub(super) trait WithFormat {
    type Output;

    fn with<S: StorageFormat>(self) -> Self::Output;
}

impl WeightStorage {
    /// How a matrix with `inputs` inputs is stored that is given as numbers.
    pub(in super::super) fn of_numbers(dtype: Dtype, inputs: usize) -> Self {
        match dtype.stored(inputs) {
            Dtype::F32 | Dtype::Stored => Self::F32,
            Dtype::Bf16 => Self::Bf16,
            Dtype::F16 => Self::F16,
            Dtype::Q8_0 => Self::Q8,
        }
    }

    /// How a tensor of a file is stored if its weights stay as they are.
    pub(in super::super) fn of_tensor(kind: TensorKind) -> Self {
        match kind {
            TensorKind::F32 => Self::F32,
            TensorKind::F16 => Self::F16,
            TensorKind::Bf16 => Self::Bf16,
            TensorKind::Q4_0 => Self::Q4_0,
            TensorKind::Q4_1 => Self::Q4_1,
            TensorKind::Q5_0 => Self::Q5_0,
            TensorKind::Q5_1 => Self::Q5_1,
            TensorKind::Q8_0 => Self::Q8_0,
            TensorKind::Iq4Nl => Self::Iq4Nl,
            TensorKind::Q4K => Self::Q4K,
            TensorKind::Q5K => Self::Q5K,
            TensorKind::Q6K => Self::Q6K,
            TensorKind::Q3K => Self::Q3K,
            TensorKind::Iq4Xs => Self::Iq4Xs,
            TensorKind::Mxfp4 => Self::Mxfp4,
            TensorKind::E4m3 => Self::E4m3,
            TensorKind::U4G32 => Self::U4G32,
            TensorKind::U4G128 => Self::U4G128,
        }
    }

    /// Whether it consists of blocks of a file.
    pub(in super::super) fn is_blocks(self) -> bool {
        !matches!(self, Self::F32 | Self::Bf16 | Self::F16 | Self::Q8)
    }

    /// Calls the function for this format.
    pub(super) fn with<W: WithFormat>(self, what: W) -> W::Output {
        match self {
            Self::F32 => what.with::<F32>(),
            Self::Bf16 => what.with::<Bf16>(),
            Self::F16 => what.with::<F16>(),
            Self::Q8 => what.with::<Q8>(),
            Self::Q4_0 => what.with::<Small<TileOf4_0>>(),
            Self::Q4_1 => what.with::<Small<TileOf4_1>>(),
            Self::Q5_0 => what.with::<Small<TileOf5_0>>(),
            Self::Q5_1 => what.with::<Small<TileOf5_1>>(),
            Self::Q8_0 => what.with::<Small<TileOf8_0>>(),
            Self::Iq4Nl => what.with::<Small<TileOfIq4Nl>>(),
            Self::Q4K => what.with::<LargeUpward<TileOf4K>>(),
            Self::Q5K => what.with::<LargeUpward<TileOf5K>>(),
            Self::Q6K => what.with::<LargeAround<TileOf6K>>(),
            Self::Q3K => what.with::<LargeAround<TileOf3K>>(),
            Self::Iq4Xs => what.with::<LargeAround<TileOfIq4Xs>>(),
            Self::Mxfp4 => what.with::<Small<TileOfMxfp4>>(),
            Self::E4m3 => what.with::<E4m3>(),
            Self::U4G32 => what.with::<ZeroPoints<TileOf4G32>>(),
            Self::U4G128 => what.with::<ZeroPoints<TileOf4G128>>(),
        }
    }
}
