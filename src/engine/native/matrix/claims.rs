//! How threads share the tiles of matrices.

use std::ops::Range;

use super::Matrix;

/// Number of tiles whose sums are finished together.
pub(super) const SPAN: usize = 4;
/// The maximum number of bytes of weights that a thread claims at once.
const CLAIM: usize = 1 << 20;
/// The minimum number of claims per thread, if a matrix has enough tiles.
const CLAIMS: usize = 4;

/// How the tiles of matrices of one shape are shared among the threads of a job.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Claims {
    tiles: usize,
    /// Tiles that a thread claims at once.
    size: usize,
}

impl Claims {
    /// For some matrices of the shape of `matrix`; threads claim multiples of `unit` tiles of one.
    pub(in super::super) fn new(
        matrix: &Matrix,
        matrices: usize,
        threads: usize,
        unit: usize,
    ) -> Self {
        let tiles = matrix.tiles();
        let most = (CLAIM / matrix.tile_bytes()).min(tiles * matrices / (CLAIMS * threads));
        let size =
            if most >= SPAN { most / SPAN * SPAN } else { most.max(1).next_multiple_of(unit) };
        Self { tiles, size }
    }

    /// Number of claims of one matrix.
    pub(in super::super) fn count(self) -> usize {
        self.tiles.div_ceil(self.size)
    }

    /// The tiles of a claim.
    pub(in super::super) fn tiles(self, claim: usize) -> Range<usize> {
        claim * self.size..self.tiles.min((claim + 1) * self.size)
    }
}
