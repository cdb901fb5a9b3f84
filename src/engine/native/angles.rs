//! How far the rows of a pass are rotated.

use crate::engine::decoder::{Rotation, angles};

/// Cosines and sines of each row's position.
#[derive(Debug)]
pub(super) struct RowAngles {
    rows: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RowAngles {
    /// Those of rows with these positions.
    pub(super) fn of(rotation: &Rotation, positions: &[usize]) -> Self {
        let (cos, sin) = angles(rotation, positions.iter().copied());
        Self { rows: positions.len(), cos, sin }
    }

    /// Those of a row, one of each per pair of rotated entries.
    pub(super) fn row(&self, row: usize) -> (&[f32], &[f32]) {
        let pairs = self.cos.len() / self.rows;
        let at = row * pairs..(row + 1) * pairs;
        (&self.cos[at.clone()], &self.sin[at])
    }
}
