//! How many rows a kernel processes at once.

use super::StorageFormat;
use crate::core::lanes::IsaKind;

/// How rows are grouped: a kernel processes the rows of a group at once, with the sums of
/// all of them in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Groups {
    /// The maximum number of rows of a single group.
    pub most: usize,
    /// The number of rows of each group, if there are several; if 0, the fewest groups,
    /// of equal sizes: where a group of few rows takes as long as a larger one.
    several: usize,
}

impl Groups {
    /// Groups of this many rows.
    pub(super) const fn of(most: usize) -> Self {
        Self { most, several: most }
    }

    /// The fewest groups of at most this many rows, of equal sizes.
    pub(super) const fn even(most: usize) -> Self {
        Self { most, several: 0 }
    }

    /// The groups for one way to store weights.
    pub(super) const fn new<S: StorageFormat>(isa: IsaKind) -> Self {
        match isa {
            IsaKind::Portable => Self::of(4),
            IsaKind::Avx2 => S::AVX2_GROUPS,
            IsaKind::AvxVnni => S::VNNI_GROUPS,
            IsaKind::Avx512 => Self { most: 16, several: 12 },
            // Of 32 registers of four lanes, six rows need 24 for their sums, the weights
            // of a tile 4, a value 1 and the mask of bf16 1.
            IsaKind::Neon | IsaKind::NeonDot => Self::of(6),
        }
    }

    /// First row and number of rows of each group.
    pub(super) fn split(self, rows: usize) -> impl Iterator<Item = (usize, usize)> {
        let size = match self.several {
            _ if rows <= self.most => rows.max(1),
            0 => rows.div_ceil(rows.div_ceil(self.most)),
            several => several,
        };
        (0..rows).step_by(size).map(move |first| (first, size.min(rows - first)))
    }
}
