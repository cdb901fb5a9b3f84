//! Products of packed rows with weights, and what becomes of their sums.
#![allow(unsafe_code)] // parts of shared buffers; each access states its reason

use super::elementwise::{Activated, Gated, Normed};
use super::matrix::{Finish, multiply_together};
use super::packer::Linear;
use super::pass::{Hand, Network, Pass, Weighted};
use crate::core::lanes::LANES;
use crate::engine::pool::{Away, Shared};

impl Hand<'_, '_> {
    /// Computes a product of the packed rows and passes the sums of each span to
    /// `finish`. Threads claim multiples of `unit` tiles.
    pub(super) fn multiply(
        &mut self,
        Weighted { memory, linear }: Weighted<'_>,
        rows: usize,
        unit: usize,
        finish: &mut Finish<'_>,
    ) -> Result<(), Away> {
        let space = self.pass.space;
        // SAFETY: no thread packs rows in this step.
        let packed = || unsafe { space.packed.view(0, rows) };
        let matrix = (memory, &linear.matrix);
        let sums = &mut self.scratch.sums;
        let Some(bias) = &linear.bias else {
            return multiply_together(self.worker, matrix, unit, packed, sums, finish);
        };
        multiply_together(self.worker, matrix, unit, packed, sums, &mut |first, sums| {
            add_bias(bias, first, sums, rows);
            finish(first, sums);
        })
    }

    /// Stores a product in rows of `width`.
    pub(super) fn store(
        &mut self,
        product: Weighted<'_>,
        rows: usize,
        to: &Shared<f32>,
        width: usize,
    ) -> Result<(), Away> {
        self.multiply(product, rows, 1, &mut |first, sums| {
            for_lanes(first, sums, rows, width, |row, at, lanes| {
                let at = row * width + at;
                // SAFETY: a tile's outputs belong to the thread that claimed it.
                put(lanes, unsafe { to.write(at..at + lanes.len()) });
            });
        })
    }

    /// Adds a product to the hidden states, normalised first if a norm is given.
    pub(super) fn add(&mut self, linear: &Linear, norm: Option<&[f32]>) -> Result<(), Away> {
        let Pass { net, space, rows, .. } = self.pass;
        let width = net.config.hidden;
        if let Some(weights) = norm {
            self.store(net.with(linear), rows, &space.branch, width)?;
            return self.add_normed(weights);
        }
        self.multiply(net.with(linear), rows, 1, &mut |first, sums| {
            for_lanes(first, sums, rows, width, |row, at, lanes| {
                let at = row * width + at;
                // SAFETY: a tile's outputs belong to the thread that claimed it.
                let x = unsafe { space.x.write(at..at + lanes.len()) };
                for (x, y) in x.iter_mut().zip(lanes) {
                    *x += y;
                }
            });
        })
    }

    /// Adds the normalised branches to the hidden states.
    fn add_normed(&mut self, weights: &[f32]) -> Result<(), Away> {
        let Pass { net, space, rows, .. } = self.pass;
        let (width, eps) = (net.config.hidden, net.config.norm_eps);
        self.worker.share(rows, |row| {
            let place = row * width..(row + 1) * width;
            // SAFETY: each row is one piece.
            let (x, branch) = unsafe { (space.x.write(place.clone()), space.branch.write(place)) };
            net.isa.run(Normed { x: &mut *branch, weights, eps });
            for (x, y) in x.iter_mut().zip(branch) {
                *x += *y;
            }
        })
    }

    /// Multiplies by the gate and up projections and combines the two to rows of `width`.
    pub(super) fn gate(&mut self, linear: &Linear, width: usize) -> Result<(), Away> {
        let Pass { net, space, rows, .. } = self.pass;
        self.multiply(net.with(linear), rows, 2, &mut |first, sums| {
            gate_tiles(net, first, sums, rows, width, |row, at, lanes| {
                let at = row * width + at;
                // SAFETY: a tile's outputs belong to the thread that claimed it.
                put(lanes, unsafe { space.inner.write(at..at + lanes.len()) });
            });
        })
    }

    /// Multiplies by the one product of a feed-forward block without a gate, to rows of `width`.
    pub(super) fn activate(&mut self, linear: &Linear, width: usize) -> Result<(), Away> {
        let Pass { net, space, rows, .. } = self.pass;
        let activation = net.config.activation;
        self.multiply(net.with(linear), rows, 1, &mut |first, sums| {
            for x in &mut *sums {
                *x = net.isa.run(Activated { activation, x });
            }
            for_lanes(first, sums, rows, width, |row, at, lanes| {
                let at = row * width + at;
                // SAFETY: a tile's outputs belong to the thread that claimed it.
                put(lanes, unsafe { space.inner.write(at..at + lanes.len()) });
            });
        })
    }
}

/// Combines the tiles of gate and up projection of a span, and calls `to` with row, first output
/// and the outputs of every pair of tiles, without those beyond `width`.
pub(super) fn gate_tiles(
    net: Network<'_>,
    first: usize,
    sums: &[[f32; LANES]],
    rows: usize,
    width: usize,
    mut to: impl FnMut(usize, usize, &[f32]),
) {
    let activation = net.config.activation;
    for (pair, sums) in sums.chunks_exact(2 * rows).enumerate() {
        let (gates, ups) = sums.split_at(rows);
        for (row, (gate, up)) in gates.iter().zip(ups).enumerate() {
            let lanes = net.isa.run(Gated { activation, gate, up });
            for_lanes(first / 2 + pair, &[lanes], 1, width, |_, at, lanes| to(row, at, lanes));
        }
    }
}

/// Adds a bias to the sums of a span.
pub(super) fn add_bias(
    bias: &[[f32; LANES]],
    first: usize,
    sums: &mut [[f32; LANES]],
    rows: usize,
) {
    for (sums, bias) in sums.chunks_exact_mut(rows).zip(&bias[first..]) {
        let sums = sums.as_flattened_mut().iter_mut();
        for (sum, bias) in sums.zip(bias.iter().cycle()) {
            *sum += bias;
        }
    }
}

/// Calls `put` with row, first output and sums of every tile of a span, without
/// the outputs beyond `width`.
pub(super) fn for_lanes(
    first: usize,
    sums: &[[f32; LANES]],
    rows: usize,
    width: usize,
    mut put: impl FnMut(usize, usize, &[f32]),
) {
    for (tile, sums) in sums.chunks_exact(rows).enumerate() {
        let at = (first + tile) * LANES;
        if at >= width {
            return;
        }
        for (row, lanes) in sums.iter().enumerate() {
            put(row, at, &lanes[..LANES.min(width - at)]);
        }
    }
}

/// Copies the lanes of a tile; whole tiles, as nearly all are, in one copy of fixed
/// size.
#[inline(always)]
pub(super) fn put(lanes: &[f32], to: &mut [f32]) {
    match (<&[f32; LANES]>::try_from(lanes), <&mut [f32; LANES]>::try_from(&mut *to)) {
        (Ok(lanes), Ok(to)) => *to = *lanes,
        _ => to.copy_from_slice(lanes),
    }
}
