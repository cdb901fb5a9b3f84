//! Inputs per layer: what they are made of, and what a layer makes of its own.
#![allow(unsafe_code)] // parts of shared buffers; each access states its reason

use super::elementwise::{Gated, Normed};
use super::input_weights::{InputWeights, PerLayerWeights};
use super::pass::{Hand, Pass};
use super::products::{for_lanes, put};
use crate::core::lanes::LANES;
use crate::engine::pool::Away;

impl Hand<'_, '_> {
    /// Computes the inputs of all layers from the rows' tokens and their embeddings.
    pub(super) fn make_inputs(&mut self, weights: &PerLayerWeights) -> Result<(), Away> {
        let Pass { net, space, rows, tokens, .. } = self.pass;
        let PerLayerWeights { table, product, norm, scales } = weights;
        let (all, width, eps) = (table.inputs(), norm.len(), net.config.norm_eps);
        self.pack(&space.embedded, &[], product, rows, |row| row)?;
        self.store(net.with(product), rows, &space.per_layer, all)?;
        let own = &mut self.scratch.row;
        self.worker.share(rows, |row| {
            own.resize(all, 0.0);
            table.unpack(net.memory, tokens[row].feed.token as usize, own);
            // SAFETY: each row is one piece.
            let inputs = unsafe { space.per_layer.write(row * all..(row + 1) * all) };
            for (x, own) in inputs.chunks_exact_mut(width).zip(own.chunks_exact(width)) {
                x.iter_mut().for_each(|x| *x *= scales.product);
                net.isa.run(Normed { x: &mut *x, weights: norm, eps });
                for (x, own) in x.iter_mut().zip(own) {
                    *x = (*x + own * scales.row) * scales.sum;
                }
            }
        })
    }

    /// Adds what a layer makes of its input to the hidden states.
    pub(super) fn add_input(&mut self, layer: usize, weights: &InputWeights) -> Result<(), Away> {
        let Pass { net, space, rows, .. } = self.pass;
        let InputWeights { gate, output, norm } = weights;
        let (all, width) = (net.config.per_layer_width(), output.matrix.inputs());
        let activation = net.config.activation;
        self.pack(&space.x, &[], gate, rows, |row| row)?;
        self.multiply(net.with(gate), rows, 1, &mut |first, sums| {
            for_lanes(first, sums, rows, width, |row, at, lanes| {
                let from = row * all + layer * width + at;
                // SAFETY: no thread writes to inputs in this step.
                let input = unsafe { space.per_layer.read(from..from + lanes.len()) };
                let [gate, up] = [lanes, input].map(padded);
                let gated = net.isa.run(Gated { activation, gate: &gate, up: &up });
                let at = row * width + at;
                // SAFETY: a tile's outputs belong to the thread that claimed it.
                put(&gated[..lanes.len()], unsafe { space.inner.write(at..at + lanes.len()) });
            });
        })?;
        self.pack(&space.inner, &[], output, rows, |row| row)?;
        self.add(output, Some(norm))
    }

    /// Multiplies the hidden states by a number.
    pub(super) fn scale(&mut self, scalar: f32) -> Result<(), Away> {
        let Pass { net, space, rows, .. } = self.pass;
        let width = net.config.hidden;
        self.worker.share(rows, |row| {
            // SAFETY: each row is one piece.
            let x = unsafe { space.x.write(row * width..(row + 1) * width) };
            x.iter_mut().for_each(|x| *x *= scalar);
        })
    }
}

/// Lanes of which the last ones may be missing.
fn padded(lanes: &[f32]) -> [f32; LANES] {
    std::array::from_fn(|i| lanes.get(i).copied().unwrap_or(0.0))
}
