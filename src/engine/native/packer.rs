//! Reads weights and packs them, on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use super::matrix::{Matrix, MatrixRows};
use super::memory::{Builder, Memory, Piece};
use super::segments::{Order, SegmentPlan, plan};
use crate::core::error::Error;
use crate::core::lanes::{IsaKind, LANES};
use crate::engine::Dtype;
use crate::engine::blocks::{RawRows, TensorKind};
use crate::engine::decoder::{Config, Described, Product, Tensors};

/// A product with weights, and what is added to it.
#[derive(Debug)]
pub(super) struct Linear {
    pub matrix: Matrix,
    /// Tile by tile, padded with zeros.
    pub bias: Option<Vec<[f32; LANES]>>,
}

/// A matrix to be packed.
#[derive(Debug)]
pub(super) struct Wanted {
    /// The tensors whose rows it has, one after the other.
    parts: Vec<Described>,
    /// The most rows that it has.
    most: usize,
    order: Order,
    /// The tensors whose numbers, one after the other, are added to its products.
    bias: Vec<Described>,
}

impl Wanted {
    /// The first rows of a table.
    pub(super) fn table(table: Described, rows: usize) -> Self {
        Self { parts: vec![table], most: rows, order: Order::AsStored, bias: Vec::new() }
    }

    /// The products of all layers, in the order of [`Config::all_products`].
    pub(super) fn layers(config: &Config) -> impl Iterator<Item = Self> {
        config.all_products(usize::MAX).map(|(layer, product)| {
            let order = match product {
                Product::GateUp(_) if config.gated => Order::HalvesInTurns,
                _ => Order::AsStored,
            };
            let parts = config.weight_parts(layer, product);
            let bias = config.bias_parts(layer, product);
            Self { parts, most: usize::MAX, order, bias }
        })
    }
}

/// Packs matrices, as many at a time as there are cores. The largest ones come first: these are
/// tables, so the memory for the others is still untouched while tables are held as f32.
pub(super) fn pack(
    (isa, dtype): (IsaKind, Dtype),
    tensors: &dyn Tensors,
    wanted: &[Wanted],
) -> Result<(Memory, Vec<Linear>), Error> {
    let checked = Checked { tensors, dtype };
    let packer = Packer { isa, dtype, tensors: &checked };
    let sizes = wanted.iter().map(|matrix| packer.bytes(matrix)).collect::<Vec<_>>();
    let mut memory = Builder::new(sizes.iter().sum())?;
    let mut order = (0..wanted.len()).collect::<Vec<_>>();
    order.sort_by_key(|&matrix| std::cmp::Reverse(sizes[matrix]));
    let pieces = memory.pieces(&sizes).into_iter().map(|piece| Mutex::new(Some(piece)));
    let pieces = pieces.collect::<Vec<_>>();
    let made = wanted.iter().map(|_| OnceLock::new()).collect::<Vec<_>>();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(&matrix) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let piece = pieces[matrix].lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(mut piece) = piece else { continue };
            let packed = packer.linear(&wanted[matrix], &mut piece);
            if packed.is_err() {
                // What others have begun is not needed either.
                next.store(order.len(), Ordering::Relaxed);
            }
            let _ = made[matrix].set(packed);
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 1..cores.min(wanted.len()) {
            // Without further threads this one does all of it.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    drop(pieces);
    let mut linears = Vec::with_capacity(made.len());
    let (mut failed, mut missing) = (None, false);
    for made in made {
        match made.into_inner() {
            Some(Ok(linear)) => linears.push(linear),
            Some(Err(error)) => failed = failed.or(Some(error)),
            None => missing = true,
        }
    }
    match failed {
        Some(error) => Err(error),
        None if missing => Err(Error::engine("a matrix was not packed")),
        None => Ok((memory.finish()?, linears)),
    }
}

/// The next of the matrices that were packed.
pub(super) fn next(linears: &mut impl Iterator<Item = Linear>) -> Result<Linear, Error> {
    linears.next().ok_or_else(|| Error::engine("a matrix was not packed"))
}

/// Packs the matrices of a model.
struct Packer<'t> {
    isa: IsaKind,
    dtype: Dtype,
    tensors: &'t dyn Tensors,
}

impl Packer<'_> {
    /// Bytes of a packed matrix.
    fn bytes(&self, wanted: &Wanted) -> usize {
        let segments = self.plan(wanted).into_iter();
        segments.map(|segment| segment.bytes(wanted.order, wanted.most)).sum()
    }

    fn plan(&self, wanted: &Wanted) -> Vec<SegmentPlan> {
        plan(self.dtype, self.tensors, wanted.parts.clone(), wanted.order)
    }

    /// Packs a matrix; the weights of a segment are freed before the next ones are read.
    fn linear(&self, wanted: &Wanted, memory: &mut Piece<'_>) -> Result<Linear, Error> {
        let inputs = wanted.parts.first().map_or(0, |(_, shape)| shape[1]);
        let mut matrix = Matrix::new(self.isa, inputs);
        for segment in self.plan(wanted) {
            self.extend(&mut matrix, &segment, wanted, memory)?;
        }
        let mut bias = Vec::new();
        for (name, shape) in &wanted.bias {
            bias.extend(self.tensors.get(name, shape)?);
        }
        let bias = wanted.order.of(&rows_of(&bias, 1), &[0.0]).concat();
        let bias = (!wanted.bias.is_empty()).then(|| in_tiles(&bias));
        Ok(Linear { matrix, bias })
    }

    /// Packs the rows of a segment.
    fn extend(
        &self,
        matrix: &mut Matrix,
        segment: &SegmentPlan,
        &Wanted { most, order, .. }: &Wanted,
        memory: &mut Piece<'_>,
    ) -> Result<(), Error> {
        let (storage, inputs) = (segment.storage, matrix.inputs());
        if storage.is_blocks() {
            let mut blocks = Vec::new();
            for (name, shape) in &segment.tensors {
                blocks.push((shape[0], self.tensors.raw(name, shape)?.blocks));
            }
            let rows =
                blocks.iter().flat_map(|(rows, blocks)| rows_of(blocks, blocks.len() / rows));
            let rows = order.of(&rows.take(most).collect::<Vec<_>>(), &[]);
            matrix.extend(memory, storage, &MatrixRows::Blocks(&rows));
            return Ok(());
        }
        let mut numbers = Vec::new();
        for (name, shape) in &segment.tensors {
            numbers.push(self.tensors.get(name, shape)?);
        }
        let nothing = vec![0.0; inputs];
        let rows = numbers.iter().flat_map(|numbers| rows_of(numbers, inputs));
        let rows = order.of(&rows.take(most).collect::<Vec<_>>(), &nothing);
        matrix.extend(memory, storage, &MatrixRows::Numbers(&rows));
        Ok(())
    }
}

/// Tensors whose weights are finite as a type stores them.
struct Checked<'a> {
    tensors: &'a dyn Tensors,
    dtype: Dtype,
}

impl Tensors for Checked<'_> {
    fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let weights = self.tensors.get(name, shape)?;
        // Only matrices are stored in another type.
        let &[_, inputs] = shape else { return Ok(weights) };
        // Magnitudes are ordered like their bits, and the comparison of these is
        // vectorised.
        let largest = weights.iter().fold(0, |most: u32, x| most.max(x.abs().to_bits()));
        let largest = f32::from_bits(largest);
        if self.dtype.stored(inputs).holds(largest) {
            return Ok(weights);
        }
        let dtype = self.dtype.name();
        Err(Error::setting(format!(
            "tensor {name} has a weight of magnitude {largest:e}, which {dtype} cannot hold: \
             choose another dtype"
        )))
    }

    fn kind(&self, name: &str) -> TensorKind {
        self.tensors.kind(name)
    }

    fn raw(&self, name: &str, shape: &[usize]) -> Result<RawRows, Error> {
        self.tensors.raw(name, shape)
    }

    fn sha256(&self) -> Result<String, Error> {
        self.tensors.sha256()
    }
}

/// The rows of a matrix.
fn rows_of<T>(matrix: &[T], width: usize) -> Vec<&[T]> {
    matrix.chunks_exact(width).collect()
}

/// Numbers in tiles, padded with zeros.
pub(super) fn in_tiles(numbers: &[f32]) -> Vec<[f32; LANES]> {
    let tile = |part: &[f32]| std::array::from_fn(|i| part.get(i).copied().unwrap_or(0.0));
    numbers.chunks(LANES).map(tile).collect()
}
