//! Products of a few or many rows with a packed matrix, piece by piece.

use std::ops::Range;

use super::dense::{Bf16, F16, F32};
use super::packed::Weights;
use super::q8::Q8;
use super::{Matrix, Rows, Storage};
use crate::lanes::{Isa, IsaKind, Kernel, LANES};
use crate::model::native::memory::Memory;
use crate::pool::Worker;

/// Tiles whose sums are finished together.
const SPAN: usize = 4;
/// Steps after which the next group of rows has its turn, so that the weights
/// stay in the nearest cache until all groups have used them.
const TURN: usize = 256;
/// How far ahead of their use weights are asked for, in bytes.
const AHEAD: usize = 1024;

/// The sums of a span: for each of its tiles, sixteen outputs of every row.
pub(in super::super) type Sums = Vec<[f32; LANES]>;

/// Takes the first tile of a span and its sums, as `[tile][row]`.
pub(in super::super) type Finish<'a> = dyn FnMut(usize, &[[f32; LANES]]) + 'a;

/// The groups of `rows` rows that a kernel takes at once: first row and number of
/// rows.
pub(in super::super) fn groups(isa: IsaKind, rows: usize) -> impl Iterator<Item = (usize, usize)> {
    let (most, many) = isa.rows_at_once();
    let size = if rows <= most { rows.max(1) } else { many };
    (0..rows).step_by(size).map(move |first| (first, size.min(rows - first)))
}

/// Multiplies `rows` with some tiles of `matrix`, span by span.
fn multiply(
    isa: IsaKind,
    (memory, matrix): (&Memory, &Matrix),
    tiles: Range<usize>,
    rows: Rows<'_>,
    sums: &mut Sums,
    finish: &mut Finish<'_>,
) {
    let Rows { rows: count, dense, blocks } = rows;
    let inputs = matrix.inputs;
    match &matrix.weights {
        Weights::F32(part) => {
            Piece::<F32>::of(memory.get(part), inputs, dense, count).run(isa, tiles, sums, finish);
        }
        Weights::Bf16(part) => {
            Piece::<Bf16>::of(memory.get(part), inputs, dense, count).run(isa, tiles, sums, finish);
        }
        Weights::F16(part) => {
            Piece::<F16>::of(memory.get(part), inputs, dense, count).run(isa, tiles, sums, finish);
        }
        Weights::Q8(part) => {
            Piece::<Q8>::of(memory.get(part), inputs, blocks, count).run(isa, tiles, sums, finish);
        }
    }
}

/// Bytes of weights that a thread claims at once, at most.
const CLAIM: usize = 1 << 20;
/// Claims per thread, at least, where a matrix has so many tiles.
const CLAIMS: usize = 4;

/// Shares a product among the threads of a job; a thread claims multiples of
/// `unit` tiles.
pub(in super::super) fn multiply_together(
    isa: IsaKind,
    worker: &Worker<'_>,
    (memory, matrix): (&Memory, &Matrix),
    unit: usize,
    rows: Rows<'_>,
    sums: &mut Sums,
    finish: &mut Finish<'_>,
) {
    let tiles = matrix.tiles();
    let most = (CLAIM / matrix.tile_bytes()).min(tiles / (CLAIMS * worker.threads()));
    let size = if most >= SPAN { most / SPAN * SPAN } else { most.max(1).next_multiple_of(unit) };
    worker.share(tiles.div_ceil(size), |claim| {
        let tiles = claim * size..tiles.min((claim + 1) * size);
        multiply(isa, (memory, matrix), tiles, rows, sums, finish);
    });
}

/// Multiplies `rows` with tiles of f32 that are `stride` steps apart and of which
/// the first `used` steps count.
pub(in super::super) fn multiply_tiles(
    isa: IsaKind,
    steps: &[[f32; LANES]],
    (stride, used): (usize, usize),
    tiles: usize,
    rows: Rows<'_>,
    sums: &mut Sums,
    finish: &mut Finish<'_>,
) {
    let piece = Piece::<F32> { steps, stride, used, values: rows.dense, count: rows.rows };
    piece.run(isa, 0..tiles, sums, finish);
}

/// A product with tiles of one storage.
struct Piece<'a, S: Storage> {
    steps: &'a [S::Step],
    /// Steps from one tile to the next.
    stride: usize,
    /// Steps that count.
    used: usize,
    values: &'a [S::Value],
    count: usize,
}

impl<'a, S: Storage> Piece<'a, S> {
    fn of(steps: &'a [S::Step], inputs: usize, values: &'a [S::Value], count: usize) -> Self {
        let stride = inputs.div_ceil(S::INPUTS);
        Self { steps, stride, used: stride, values, count }
    }

    fn run(self, isa: IsaKind, tiles: Range<usize>, sums: &mut Sums, finish: &mut Finish<'_>) {
        for first in tiles.clone().step_by(SPAN) {
            let tiles = first..tiles.end.min(first + SPAN);
            sums.clear();
            sums.resize(tiles.len() * self.count, [0.0; LANES]);
            isa.run(Span { piece: &self, tiles, sums });
            finish(first, sums);
        }
    }
}

/// The tiles of a piece whose sums are finished together.
struct Span<'a, S: Storage> {
    piece: &'a Piece<'a, S>,
    tiles: Range<usize>,
    sums: &'a mut Sums,
}

impl<S: Storage> Kernel for Span<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Piece { stride, used, values, count, .. } = *self.piece;
        let span = &self.piece.steps[self.tiles.start * stride..self.tiles.end * stride];
        let tiles = self.tiles.len();
        let turn = if count <= I::KIND.rows_at_once().0 { used.max(1) } else { TURN };
        for from in (0..used).step_by(turn) {
            let until = used.min(from + turn);
            let mut values = values;
            for (row, rows) in groups(I::KIND, count) {
                let per_step = rows * S::VALUES;
                let (group, rest) = values.split_at(per_step * used);
                values = rest;
                let group = &group[per_step * from..per_step * until];
                let block = Block { span, stride, from, until, tiles, count };
                block.run_rows::<I, S>(isa, rows, group, &mut self.sums[row..]);
            }
        }
    }
}

/// Some steps of the tiles of a span.
#[derive(Clone, Copy)]
struct Block<'a, T> {
    span: &'a [T],
    stride: usize,
    from: usize,
    until: usize,
    tiles: usize,
    /// Distance of two tiles' sums.
    count: usize,
}

impl<T: Copy> Block<'_, T> {
    /// Chooses the kernel for a number of rows.
    #[inline(always)]
    fn run_rows<I: Isa, S: Storage<Step = T>>(
        self,
        isa: I,
        rows: usize,
        values: &[S::Value],
        sums: &mut [[f32; LANES]],
    ) {
        macro_rules! choose {
            ($($m:literal)*) => {
                match rows {
                    $($m => {
                        if const { $m <= I::KIND.rows_at_once().0 } {
                            self.run_tiles::<I, S, $m>(isa, S::rows_of(values), sums);
                        }
                    })*
                    _ => unreachable!("{rows} rows are more than a group"),
                }
            };
        }
        choose!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
    }

    /// Goes through the tiles, as many at once as there are registers for.
    #[inline(always)]
    fn run_tiles<I: Isa, S: Storage<Step = T>, const M: usize>(
        self,
        isa: I,
        values: &[S::Values<M>],
        sums: &mut [[f32; LANES]],
    ) {
        let mut tile = 0;
        if const { S::SIDE_BY_SIDE && 4 * (M + 1) < I::REGISTERS } {
            while tile + 4 <= self.tiles {
                self.strip::<I, S, M, 4>(isa, tile, values, sums);
                tile += 4;
            }
        }
        if const { S::SIDE_BY_SIDE && 2 * (M + 1) < I::REGISTERS } {
            while tile + 2 <= self.tiles {
                self.strip::<I, S, M, 2>(isa, tile, values, sums);
                tile += 2;
            }
        }
        while tile < self.tiles {
            self.strip::<I, S, M, 1>(isa, tile, values, sums);
            tile += 1;
        }
    }

    /// Adds the steps of `N` tiles to the sums of `M` rows.
    #[inline(always)]
    fn strip<I: Isa, S: Storage<Step = T>, const M: usize, const N: usize>(
        self,
        isa: I,
        first: usize,
        values: &[S::Values<M>],
        sums: &mut [[f32; LANES]],
    ) {
        let tiles: [&[T]; N] =
            std::array::from_fn(|n| &self.span[(first + n) * self.stride..][self.from..self.until]);
        assert!(tiles.iter().all(|tile| tile.len() == values.len()), "one value per step");
        let mut held = [[isa.splat(0.0); M]; N];
        for n in 0..N {
            for m in 0..M {
                held[n][m] = isa.load(&sums[(first + n) * self.count + m]);
            }
        }
        for (i, value) in values.iter().enumerate() {
            let weights: [&T; N] = std::array::from_fn(|n| &tiles[n][i]);
            for w in weights {
                isa.prefetch(w, AHEAD);
            }
            S::step(isa, weights, value, &mut held);
        }
        for n in 0..N {
            for m in 0..M {
                isa.store(held[n][m], &mut sums[(first + n) * self.count + m]);
            }
        }
    }
}
