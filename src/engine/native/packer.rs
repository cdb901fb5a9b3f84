//! Reads weights and packs them, on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use super::matrix::{Filling, Matrix, WeightStorage};
use super::memory::{Builder, Memory, Piece};
use super::segments::{Order, SegmentPlan, plan};
use crate::core::error::Error;
use crate::core::lanes::{IsaKind, LANES};
use crate::engine::Dtype;
use crate::engine::blocks::SomeRows;
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
    let packer = Packer { isa, dtype, tensors };
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

    /// Packs a matrix, tensor by tensor.
    fn linear(&self, wanted: &Wanted, memory: &mut Piece<'_>) -> Result<Linear, Error> {
        let inputs = wanted.parts.first().map_or(0, |(_, shape)| shape[1]);
        let mut matrix = Matrix::new(self.isa, inputs);
        for segment in self.plan(wanted) {
            let Wanted { order, most, .. } = *wanted;
            let rows = segment.rows().min(most);
            let outputs = matrix.extend(memory, segment.storage, order.outputs(rows));
            let mut filling = SegmentFilling { outputs, order, rows, next: 0 };
            for tensor in &segment.tensors {
                self.fill(&mut filling, tensor, segment.storage)?;
            }
        }
        Ok(Linear { matrix, bias: self.bias(wanted)? })
    }

    /// Packs a tensor.
    fn fill(
        &self,
        filling: &mut SegmentFilling<'_>,
        (name, shape): &Described,
        storage: WeightStorage,
    ) -> Result<(), Error> {
        let inputs = shape[1];
        if storage.is_blocks() {
            filling.put(shape[0], SomeRows::Stored(&self.tensors.raw(name, shape)?.blocks));
            return Ok(());
        }
        let kind = self.tensors.kind(name);
        let (mut largest, mut numbers) = (0, Vec::new());
        self.tensors.visit(name, shape, &mut |rows| match rows {
            SomeRows::Stored(bytes) if filling.outputs.takes(kind) => {
                filling.put(bytes.len() / inputs / kind.bytes(), rows);
            }
            SomeRows::Stored(bytes) => {
                numbers.clear();
                kind.dequantise(bytes, &mut numbers);
                largest = largest.max(largest_of(&numbers));
                filling.put(numbers.len() / inputs, SomeRows::Numbers(&numbers));
            }
            SomeRows::Numbers(numbers) => {
                largest = largest.max(largest_of(numbers));
                filling.put(numbers.len() / inputs, rows);
            }
        })?;
        self.check_holds(name, f32::from_bits(largest), inputs)
    }

    /// Checks that a tensor's weights are finite as the type stores them.
    fn check_holds(&self, name: &str, largest: f32, inputs: usize) -> Result<(), Error> {
        if self.dtype.stored(inputs).holds(largest) {
            return Ok(());
        }
        let dtype = self.dtype.name();
        Err(Error::setting(format!(
            "tensor {name} has a weight of magnitude {largest:e}, which {dtype} cannot hold: \
             choose another dtype"
        )))
    }

    /// What is added to the products, in tiles.
    fn bias(&self, wanted: &Wanted) -> Result<Option<Vec<[f32; LANES]>>, Error> {
        let mut bias = Vec::new();
        for (name, shape) in &wanted.bias {
            bias.extend(self.tensors.get(name, shape)?);
        }
        let mut placed = vec![0.0; wanted.order.outputs(bias.len())];
        for (row, added) in bias.iter().enumerate() {
            placed[wanted.order.place(row, bias.len()).0] = *added;
        }
        Ok((!wanted.bias.is_empty()).then(|| in_tiles(&placed)))
    }
}

/// A segment that is being packed, row by row.
struct SegmentFilling<'m> {
    outputs: Filling<'m>,
    order: Order,
    /// Number of all rows.
    rows: usize,
    /// The next row.
    next: usize,
}

impl SegmentFilling<'_> {
    /// Packs the next `count` rows; those behind the last one are left out.
    fn put(&mut self, count: usize, rows: SomeRows<'_>) {
        let mut done = 0;
        while done < count && self.next < self.rows {
            let (first, run) = self.order.place(self.next, self.rows);
            let run = run.min(count - done);
            self.outputs.put(first, run, rows.part(done..done + run, count));
            (done, self.next) = (done + run, self.next + run);
        }
    }
}

/// The largest magnitude as bits: magnitudes are ordered like these, and the comparison of these is
/// vectorised. NaN is larger than all numbers.
fn largest_of(numbers: &[f32]) -> u32 {
    numbers.iter().fold(0, |most, x| most.max(x.abs().to_bits()))
}

/// Numbers in tiles, padded with zeros.
pub(super) fn in_tiles(numbers: &[f32]) -> Vec<[f32; LANES]> {
    let tile = |part: &[f32]| std::array::from_fn(|i| part.get(i).copied().unwrap_or(0.0));
    numbers.chunks(LANES).map(tile).collect()
}
