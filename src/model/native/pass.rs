//! One pass over the layers, as each thread runs it.
//!
//! Every step is shared among the threads piece by piece; no result depends on which
//! thread computes which piece. A thread may enter late and find steps done, so no
//! thread accesses shared buffers between two steps.
#![allow(unsafe_code)] // parts of shared buffers; each access states its reason

use std::sync::PoisonError;

use super::Native;
use super::attention::{Attention, Scratch};
use super::cache::NativeCache;
use super::matrix::{Finish, Matrix, multiply_together};
use super::workspace::Workspace;
use crate::lanes::{Isa, Kernel, LANES, math};
use crate::model::Feed;
use crate::pool::{Away, Shared, Worker};

/// What a pass works on.
#[derive(Clone, Copy)]
pub(super) struct Pass<'a> {
    pub model: &'a Native,
    pub space: &'a Workspace,
    pub cache: &'a NativeCache,
    /// The tokens to compute.
    pub feed: &'a [Feed],
    /// The rows whose logits are wanted.
    pub wanted: &'a [usize],
}

/// One thread's part in a pass.
struct Hand<'a, 'w> {
    pass: Pass<'a>,
    worker: &'a Worker<'w>,
    scratch: &'a mut Scratch,
}

impl Pass<'_> {
    /// Runs one thread's part.
    pub(super) fn run(self, worker: &Worker<'_>) -> Result<(), Away> {
        let scratch = &self.space.scratch[worker.index()];
        let scratch = &mut *scratch.lock().unwrap_or_else(PoisonError::into_inner);
        Hand { pass: self, worker, scratch }.run()
    }
}

impl Hand<'_, '_> {
    fn run(&mut self) -> Result<(), Away> {
        let Pass { model, space, feed, wanted, .. } = self.pass;
        let rows = feed.len();
        for (number, layer) in model.weights.layers.iter().enumerate() {
            self.pack(&space.x, Some(&layer.attention_norm), &layer.qkv, rows, |row| row)?;
            self.store(&layer.qkv, rows, &space.qkv, model.config.qkv_width())?;
            let last = number + 1 == model.weights.layers.len();
            self.attend(number, last && wanted.is_empty())?;
            if last && wanted.is_empty() {
                // The output of the last layer is not needed.
                return Ok(());
            }
            self.pack(&space.mixed, None, &layer.output, rows, |row| row)?;
            self.add(&layer.output, rows)?;
            self.pack(&space.x, Some(&layer.mlp_norm), &layer.gate_up, rows, |row| row)?;
            self.gate(&layer.gate_up, rows)?;
            self.pack(&space.inner, None, &layer.down, rows, |row| row)?;
            self.add(&layer.down, rows)?;
        }
        let head = &model.weights.head;
        self.pack(&space.x, Some(&model.weights.norm), head, wanted.len(), |row| wanted[row])?;
        self.store(head, wanted.len(), &space.logits, model.info.vocab)
    }

    /// Packs rows of `from`, normalised if a norm is given, for a product with
    /// `matrix`; packed row `i` is row `source(i)` of `from`.
    fn pack(
        &mut self,
        from: &Shared<f32>,
        norm: Option<&[f32]>,
        matrix: &Matrix,
        rows: usize,
        source: impl Fn(usize) -> usize,
    ) -> Result<(), Away> {
        let Pass { model, space, .. } = self.pass;
        let width = matrix.inputs();
        let normed = &mut self.scratch.row;
        self.worker.share(rows, |row| {
            let at = source(row) * width;
            // SAFETY: no thread writes to `from` in this step.
            let x = unsafe { from.read(at..at + width) };
            let values = match norm {
                Some(weights) => {
                    normed.resize(width, 0.0);
                    let eps = model.config.norm_eps;
                    model.isa.run(Normed { x, weights, eps, to: normed });
                    &normed[..]
                }
                None => x,
            };
            // SAFETY: each row is packed in one piece, and no thread reads packed rows
            // in this step.
            unsafe { space.packed.put(matrix, (row, rows), values) };
        })
    }

    /// Multiplies the packed rows by a matrix and passes the sums of each span to
    /// `finish`. Threads claim multiples of `unit` tiles.
    fn multiply(
        &mut self,
        matrix: &Matrix,
        rows: usize,
        unit: usize,
        finish: &mut Finish<'_>,
    ) -> Result<(), Away> {
        let Pass { model, space, .. } = self.pass;
        // SAFETY: no thread packs rows in this step.
        let rows = || unsafe { space.packed.view(rows) };
        let sums = &mut self.scratch.sums;
        let matrix = (&model.weights.memory, matrix);
        multiply_together(self.worker, matrix, unit, rows, sums, finish)
    }

    /// Stores a product in rows of `width`.
    fn store(
        &mut self,
        matrix: &Matrix,
        rows: usize,
        to: &Shared<f32>,
        width: usize,
    ) -> Result<(), Away> {
        self.multiply(matrix, rows, 1, &mut |first, sums| {
            for_lanes(first, sums, rows, width, |row, at, lanes| {
                let at = row * width + at;
                // SAFETY: a tile's outputs belong to the thread that claimed it.
                put(lanes, unsafe { to.write(at..at + lanes.len()) });
            });
        })
    }

    /// Adds a product to the hidden states.
    fn add(&mut self, matrix: &Matrix, rows: usize) -> Result<(), Away> {
        let Pass { model, space, .. } = self.pass;
        let width = model.config.hidden;
        self.multiply(matrix, rows, 1, &mut |first, sums| {
            for_lanes(first, sums, rows, width, |row, at, lanes| {
                let at = row * width + at;
                // SAFETY: a tile's outputs belong to the thread that claimed it.
                let x = unsafe { space.x.write(at..at + lanes.len()) };
                x.iter_mut().zip(lanes).for_each(|(x, y)| *x += y);
            });
        })
    }

    /// Multiplies by the gate and up projections and combines the two.
    fn gate(&mut self, matrix: &Matrix, rows: usize) -> Result<(), Away> {
        let Pass { model, space, .. } = self.pass;
        let width = model.config.intermediate;
        self.multiply(matrix, rows, 2, &mut |first, sums| {
            for (pair, sums) in sums.chunks_exact(2 * rows).enumerate() {
                let (gates, ups) = sums.split_at(rows);
                let joined = gates.iter().zip(ups).map(|(gate, up)| model.isa.run(Gated(gate, up)));
                for (row, lanes) in joined.enumerate() {
                    for_lanes(first / 2 + pair, &[lanes], 1, width, |_, at, lanes| {
                        let at = row * width + at;
                        // SAFETY: a tile's outputs belong to the thread that
                        // claimed it.
                        put(lanes, unsafe { space.inner.write(at..at + lanes.len()) });
                    });
                }
            }
        })
    }

    /// Stores keys and values of the rows and, unless `only_store`, computes the rows'
    /// attention outputs.
    fn attend(&mut self, layer: usize, only_store: bool) -> Result<(), Away> {
        let Pass { model, space, cache, feed, .. } = self.pass;
        let attention = Attention {
            isa: model.isa,
            layer,
            heads: model.config.heads,
            kv_heads: model.config.kv_heads,
            head_dim: model.config.head_dim,
            feed,
            cache,
            angles: &space.angles,
            qkv: &space.qkv,
            mixed: &space.mixed,
        };
        let (blocks, scratch) = (attention.blocks(), &mut *self.scratch);
        // If each head has only one block, the thread that stores a head continues with
        // it.
        let at_once = blocks == 1 && !only_store;
        self.worker.share(model.config.kv_heads, |head| {
            // SAFETY: each head is one piece; no other piece writes or reads its
            // projections and its cache.
            unsafe {
                attention.store(head);
                if at_once {
                    attention.attend(head, 0, scratch);
                }
            }
        })?;
        if at_once || only_store {
            return Ok(());
        }
        self.worker.share(model.config.kv_heads * blocks, |piece| {
            // SAFETY: each block of a head is one piece; no thread writes to
            // projections or cache in this step.
            unsafe { attention.attend(piece / blocks, piece % blocks, scratch) };
        })
    }
}

/// Calls `put` with row, first output and sums of every tile of a span, without
/// the outputs beyond `width`.
fn for_lanes(
    first: usize,
    sums: &[[f32; LANES]],
    rows: usize,
    width: usize,
    mut put: impl FnMut(usize, usize, &[f32]),
) {
    for (tile, sums) in sums.chunks_exact(rows).enumerate() {
        let at = (first + tile) * LANES;
        for (row, lanes) in sums.iter().enumerate() {
            put(row, at, &lanes[..LANES.min(width - at)]);
        }
    }
}

/// Copies the lanes of a tile; whole tiles, as nearly all are, in one copy of fixed
/// size.
#[inline(always)]
fn put(lanes: &[f32], to: &mut [f32]) {
    match (<&[f32; LANES]>::try_from(lanes), <&mut [f32; LANES]>::try_from(&mut *to)) {
        (Ok(lanes), Ok(to)) => *to = *lanes,
        _ => to.copy_from_slice(lanes),
    }
}

/// Divides a row by its root mean square and multiplies it by the weights of a norm.
struct Normed<'a> {
    x: &'a [f32],
    weights: &'a [f32],
    eps: f32,
    to: &'a mut [f32],
}

impl Kernel for Normed<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let mean = math::sum_of_squares(isa, self.x) / self.x.len() as f32;
        let scale = 1.0 / (mean + self.eps).sqrt();
        for ((to, x), weight) in self.to.iter_mut().zip(self.x).zip(self.weights) {
            *to = x * scale * weight;
        }
    }
}

/// `silu(gate) · up`.
struct Gated<'a>(&'a [f32; LANES], &'a [f32; LANES]);

impl Kernel for Gated<'_> {
    type Output = [f32; LANES];

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> [f32; LANES] {
        let mut out = [0.0; LANES];
        isa.store(isa.mul(math::silu(isa, isa.load(self.0)), isa.load(self.1)), &mut out);
        out
    }
}
