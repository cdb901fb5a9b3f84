//! Sparse feed-forward blocks: each expert that some row of a pass needs is read once, for all of
//! its rows.
#![allow(unsafe_code)] // parts of shared buffers; each access states its reason

use super::assignment::Assignment;
use super::elementwise::{Exponentials, Normed};
use super::matrix::{Claims, multiply};
use super::packer::Linear;
use super::pass::{Hand, Pass, Place};
use super::products::{add_bias, for_lanes, gate_tiles, put};
use super::weights::{BlockWeights, SparseWeights};
use crate::core::lanes::LANES;
use crate::engine::decoder::Experts;
use crate::engine::pool::Away;

/// Which product of an expert.
type Which = fn(&BlockWeights) -> &Linear;

/// Called with the first place of an expert, the first tile of a span, its sums, and the number of
/// the expert's rows.
type FinishExpert<'a> = dyn FnMut(usize, usize, &[[f32; LANES]], usize) + 'a;

impl Hand<'_, '_> {
    /// Computes a sparse feed-forward block, which reads hidden states after the norm `before`, and
    /// is normalised itself by `after`.
    pub(super) fn sparse(
        &mut self,
        layer: usize,
        (sparse, all): (&SparseWeights, &Experts),
        [before, after]: [Option<&[f32]>; 2],
    ) -> Result<(), Away> {
        let Pass { net, space, rows, .. } = self.pass;
        self.pack(&space.x, before.as_slice(), &sparse.router, rows, |row| row)?;
        self.store(net.with(&sparse.router), rows, &space.router, all.count)?;
        self.assign(layer, all)?;
        let places = rows * all.used;
        let assignment = move || {
            space.assignments[layer].get().expect("it was made in the phase before this one")
        };
        let words = sparse.words_per_row();
        let to = |which: Which| {
            move |place: usize| {
                let (expert, places) = assignment().of(place);
                let linear = which(&sparse.experts[expert]);
                let row = (place - places.start, places.len());
                Place { linear, from: places.start * words, row }
            }
        };
        let row_of = |place: usize| assignment().rows[place];
        let norms = before.as_slice();
        self.pack_from(places, to(|expert| &expert.gate_up), |place| {
            (&space.x, norms, row_of(place))
        })?;
        let width = all.intermediate;
        self.multiply_experts((layer, sparse, 2), |expert| &expert.gate_up, &mut {
            |first_row, first, sums: &[[f32; LANES]], rows| {
                gate_tiles(net, first, sums, rows, width, |row, at, lanes| {
                    let at = (first_row + row) * width + at;
                    // SAFETY: a tile's outputs belong to the thread that claimed it.
                    put(lanes, unsafe { space.inner.write(at..at + lanes.len()) });
                });
            }
        })?;
        self.pack_from(places, to(|expert| &expert.down), |place| (&space.inner, &[], place))?;
        let width = net.config.hidden;
        self.multiply_experts((layer, sparse, 1), |expert| &expert.down, &mut {
            |first_row, first, sums: &[[f32; LANES]], rows| {
                for_lanes(first, sums, rows, width, |row, at, lanes| {
                    let at = (first_row + row) * width + at;
                    // SAFETY: a tile's outputs belong to the thread that claimed it.
                    put(lanes, unsafe { space.branch.write(at..at + lanes.len()) });
                });
            }
        })?;
        self.add_experts(layer, all.used, after)
    }

    /// Chooses the experts of all rows, and assigns the rows to them.
    fn assign(&mut self, layer: usize, all: &Experts) -> Result<(), Away> {
        let Pass { net, space, rows, .. } = self.pass;
        self.worker.share(rows, |row| {
            let logits = row * all.count..(row + 1) * all.count;
            // SAFETY: no thread writes to these logits in this step.
            let logits = unsafe { space.router.read(logits) };
            let choices = all.choose(logits, |x| net.isa.run(Exponentials { x }));
            // SAFETY: each row is one piece.
            let to = unsafe { space.choices.write(row * all.used..(row + 1) * all.used) };
            to.copy_from_slice(&choices);
        })?;
        self.worker.share(1, |_| {
            // SAFETY: no thread writes to choices in this step.
            let choices = unsafe { space.choices.read(0..rows * all.used) };
            space.assignments[layer].get_or_init(|| Assignment::new(choices, all.used));
        })
    }

    /// Multiplies the packed rows of all experts that are needed. Threads claim multiples of `unit`
    /// tiles.
    fn multiply_experts(
        &mut self,
        (layer, sparse, unit): (usize, &SparseWeights, usize),
        which: Which,
        finish: &mut FinishExpert<'_>,
    ) -> Result<(), Away> {
        let Pass { net, space, rows, .. } = self.pass;
        // How many are needed is known only within a phase.
        let most = sparse.experts.len().min(rows * net.config.experts_per_row());
        let Some(first) = sparse.experts.first() else { return Ok(()) };
        let claims = Claims::new(&which(first).matrix, most, self.worker.threads(), unit);
        let words = sparse.words_per_row();
        let sums = &mut self.scratch.sums;
        self.worker.share(most * claims.count(), |piece| {
            let needed = space.assignments[layer].get().map_or(&[][..], |found| &found.experts);
            let Some((expert, places)) = needed.get(piece / claims.count()) else { return };
            let Linear { matrix, bias } = which(&sparse.experts[*expert]);
            let (start, count) = (places.start, places.len());
            // SAFETY: no thread packs rows in this step.
            let rows = unsafe { space.packed.view(start * words, count) };
            let tiles = claims.tiles(piece % claims.count());
            multiply((net.memory, matrix), tiles, rows, sums, &mut |first, sums| {
                if let Some(bias) = bias {
                    add_bias(bias, first, sums, count);
                }
                finish(start, first, sums, count);
            });
        })
    }

    /// Adds what the experts of each row give, normalised first if a norm is given, to its hidden
    /// state.
    fn add_experts(&mut self, layer: usize, used: usize, norm: Option<&[f32]>) -> Result<(), Away> {
        let Pass { net, space, rows, .. } = self.pass;
        let (width, eps) = (net.config.hidden, net.config.norm_eps);
        let sum = &mut self.scratch.row;
        self.worker.share(rows, |row| {
            let Some(assignment) = space.assignments[layer].get() else { return };
            sum.clear();
            sum.resize(width, 0.0);
            let own = row * used..(row + 1) * used;
            // SAFETY: no thread writes to choices or to outputs of experts in this step.
            let choices = unsafe { space.choices.read(own.clone()) };
            for (choice, place) in choices.iter().zip(&assignment.places[own]) {
                // SAFETY: as above.
                let output = unsafe { space.branch.read(place * width..(place + 1) * width) };
                for (sum, x) in sum.iter_mut().zip(output) {
                    *sum += choice.weight * x;
                }
            }
            if let Some(weights) = norm {
                net.isa.run(Normed { x: sum, weights, eps });
            }
            // SAFETY: each row is one piece.
            let x = unsafe { space.x.write(row * width..(row + 1) * width) };
            for (x, y) in x.iter_mut().zip(sum.iter()) {
                *x += *y;
            }
        })
    }
}
