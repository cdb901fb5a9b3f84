//! What comes before the layers of a head: its token and its state become one input.
#![allow(unsafe_code)] // parts of shared buffers; each access states its reason

use super::elementwise::{Gated, Normed};
use super::front::{FrontKind, Joint};
use super::packer::Linear;
use super::pass::{Hand, Pass};
use super::products::for_lanes;
use crate::core::lanes::LANES;
use crate::engine::decoder::Activation;
use crate::engine::pool::Away;

impl Hand<'_, '_> {
    /// Adds the activations of Medusa's blocks, one after the other.
    pub(super) fn add_blocks(&mut self, blocks: &[Linear]) -> Result<(), Away> {
        blocks.iter().try_for_each(|block| self.add_block(block))
    }

    /// Computes the input of the layers.
    pub(super) fn join(&mut self, front: Joint<'_>) -> Result<(), Away> {
        let Pass { net, space, rows, .. } = self.pass;
        let width = net.config.hidden;
        if let Some((fc, norms)) = front.fuse {
            let norms = norms.iter().map(|weights| &weights[..]).collect::<Vec<_>>();
            self.pack(&space.features, &norms, fc, rows, |row| row)?;
            self.store(net.with(fc), rows, &space.states, width)?;
        }
        self.combine(front)?;
        let Some(join) = front.join else { return Ok(()) };
        self.pack(&space.wide, &[], join, rows, |row| row)?;
        self.store(net.with(join), rows, &space.x, width)
    }

    /// Brings embeddings and states together, row by row.
    fn combine(&mut self, front: Joint<'_>) -> Result<(), Away> {
        let Pass { net, space, rows, .. } = self.pass;
        let (width, eps) = (net.config.hidden, net.config.norm_eps);
        self.worker.share(rows, |row| {
            let place = row * width..(row + 1) * width;
            // SAFETY: each row is one piece, and no thread writes to states in this step.
            let (both, x, state) = unsafe {
                let both = space.wide.write(2 * place.start..2 * place.end);
                (both, space.x.write(place.clone()), space.states.read(place))
            };
            let (first, second) = both.split_at_mut(width);
            let (embedding, second) = if front.state_first {
                second.copy_from_slice(first);
                (second, first)
            } else {
                (first, second)
            };
            second.copy_from_slice(state);
            if let Some([first, other]) = front.norms {
                net.isa.run(Normed { x: &mut *embedding, weights: first, eps });
                net.isa.run(Normed { x: &mut *second, weights: other, eps });
            }
            match front.kind {
                FrontKind::SideBySide { normed_residual: true } => x.copy_from_slice(second),
                FrontKind::SideBySide { normed_residual: false } => x.copy_from_slice(state),
                FrontKind::Joined => {}
                FrontKind::Added => {
                    for ((x, embedding), state) in x.iter_mut().zip(embedding).zip(state) {
                        *x = *embedding + state;
                    }
                }
            }
        })
    }

    /// Adds the activation of a product of the hidden states to them.
    fn add_block(&mut self, block: &Linear) -> Result<(), Away> {
        let Pass { net, space, rows, .. } = self.pass;
        let width = net.config.hidden;
        self.pack(&space.x, &[], block, rows, |row| row)?;
        self.multiply(net.with(block), rows, 1, &mut |first, sums| {
            for gate in sums.iter_mut() {
                let up = &[1.0; LANES];
                *gate = net.isa.run(Gated { activation: Activation::Silu, gate: &*gate, up });
            }
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
}
