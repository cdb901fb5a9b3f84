//! What the tests of kernels share.

use rand::{Rng, RngExt};
use specdec::core::lanes::IsaKind;

/// (Threads, rows): every number of rows that one kernel takes on some instruction set, several
/// groups of rows, and more of them with a remainder.
pub(crate) const ROW_COUNTS: [(usize, usize); 11] =
    [(1, 1), (2, 2), (1, 3), (2, 4), (3, 5), (2, 6), (1, 7), (1, 12), (2, 13), (1, 16), (2, 64)];

pub(crate) fn uniform(rng: &mut impl Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| rng.random::<f32>() - 0.5).collect()
}

pub(crate) fn isas() -> impl Iterator<Item = IsaKind> {
    IsaKind::ALL.into_iter().filter(|isa| isa.is_available())
}
