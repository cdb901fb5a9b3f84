//! The ways to store a matrix, by the types of GGUF files.

use super::StorageFormat;
use super::dense::{Bf16, F16, F32};
use super::large_blocks::{LargeUpward, Q6K, TileOf4K, TileOf5K};
use super::small_blocks::{
    Small, TileOf4_0, TileOf4_1, TileOf5_0, TileOf5_1, TileOf8_0, TileOfIq4Nl,
};
use crate::model::blocks::TensorKind;

/// Something to be done with a format, whichever it is.
pub(super) trait WithFormat {
    type Output;

    fn with<S: StorageFormat>(self) -> Self::Output;
}

/// Calls the function for the format of a type.
pub(super) fn with_format<W: WithFormat>(kind: TensorKind, what: W) -> W::Output {
    match kind {
        TensorKind::F32 => what.with::<F32>(),
        TensorKind::Bf16 => what.with::<Bf16>(),
        TensorKind::F16 => what.with::<F16>(),
        TensorKind::Q4_0 => what.with::<Small<TileOf4_0>>(),
        TensorKind::Q4_1 => what.with::<Small<TileOf4_1>>(),
        TensorKind::Q5_0 => what.with::<Small<TileOf5_0>>(),
        TensorKind::Q5_1 => what.with::<Small<TileOf5_1>>(),
        TensorKind::Q8_0 => what.with::<Small<TileOf8_0>>(),
        TensorKind::Iq4Nl => what.with::<Small<TileOfIq4Nl>>(),
        TensorKind::Q4K => what.with::<LargeUpward<TileOf4K>>(),
        TensorKind::Q5K => what.with::<LargeUpward<TileOf5K>>(),
        TensorKind::Q6K => what.with::<Q6K>(),
    }
}
