//! Products of a few or many rows with a packed matrix, piece by piece.

use std::ops::Range;

use super::claims::{Claims, SPAN};
use super::dense::{F16, F32};
use super::groups::Groups;
use super::packed::Segment;
use super::storage::WithFormat;
use super::{Matrix, Rows, StorageFormat};
use crate::core::lanes::prefetch::prefetch;
use crate::core::lanes::{Isa, IsaKind, Kernel, LANES};
use crate::engine::native::memory::Memory;
use crate::engine::pool::{Away, Worker};

/// Bytes of a tile after which the next group of rows is processed, so that the weights
/// stay in a near cache until all groups have used them.
const TURN: usize = 1 << 14;
/// Bytes of a cache line.
const LINE: usize = 64;
/// How far ahead weights are prefetched, in bytes: into the nearest cache, and before
/// that into the next one. The processor's own prefetching does not reach as far, which
/// leaves the memory idle while many rows are multiplied.
struct Ahead {
    near: usize,
    far: Option<usize>,
}

impl Ahead {
    const fn new<S: StorageFormat>(isa: IsaKind) -> Self {
        match isa {
            // A core waits for few lines at a time, and a prefetch occupies the place of
            // one until it has arrived.
            IsaKind::Avx2 | IsaKind::AvxVnni => Self { near: S::AVX2_AHEAD, far: None },
            _ => Self { near: 512, far: Some(8192) },
        }
    }
}

/// The sums of a span: for each of its tiles, sixteen outputs of every row.
pub(in super::super) type Sums = Vec<[f32; LANES]>;

/// Called with the first tile of a span and its sums, as `[tile][row]`.
pub(in super::super) type Finish<'a> = dyn FnMut(usize, &mut [[f32; LANES]]) + 'a;

/// Multiplies `rows` by some tiles of `matrix`, span by span.
pub(in super::super) fn multiply(
    (memory, matrix): (&Memory, &Matrix),
    tiles: Range<usize>,
    rows: Rows<'_>,
    sums: &mut Sums,
    finish: &mut Finish<'_>,
) {
    for segment in &matrix.segments {
        let first = segment.tiles.start;
        let part = tiles.start.max(first)..tiles.end.min(segment.tiles.end);
        if !part.is_empty() {
            let form = segment.form(matrix.isa);
            let words = &rows.words[matrix.words_before(form, rows.count)..];
            let tiles = part.start - first..part.end - first;
            let rows = Rows { words, ..rows };
            let finish = &mut |tile, sums: &mut [_]| finish(first + tile, sums);
            segment.storage.with(Multiply { memory, matrix, segment, tiles, rows, sums, finish });
        }
    }
}

/// A product with tiles of a segment.
struct Multiply<'a, 'f> {
    memory: &'a Memory,
    matrix: &'a Matrix,
    segment: &'a Segment,
    tiles: Range<usize>,
    rows: Rows<'a>,
    sums: &'a mut Sums,
    finish: &'a mut Finish<'f>,
}

impl WithFormat for Multiply<'_, '_> {
    type Output = ();

    fn with<S: StorageFormat>(self) {
        let steps = self.memory.get(&self.segment.steps);
        let piece = Piece::<S>::of(steps, self.matrix.inputs, self.rows);
        piece.run(self.matrix.isa, self.tiles, self.sums, self.finish);
    }
}

/// Shares a product among the threads of a job; a thread claims multiples of `unit`
/// tiles. `rows` is called only within the pieces.
pub(in super::super) fn multiply_together<'a>(
    worker: &Worker<'_>,
    (memory, matrix): (&Memory, &Matrix),
    unit: usize,
    rows: impl Fn() -> Rows<'a>,
    sums: &mut Sums,
    finish: &mut Finish<'_>,
) -> Result<(), Away> {
    let claims = Claims::new(matrix, 1, worker.threads(), unit);
    worker.share(claims.count(), |claim| {
        multiply((memory, matrix), claims.tiles(claim), rows(), sums, finish);
    })
}

/// Numbers in tiles, with one input per line. A product has the same bits whichever type the
/// same numbers have.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum TileLines<'a> {
    F32(&'a [[f32; LANES]]),
    F16(&'a [[u16; LANES]]),
}

impl TileLines<'_> {
    /// The lines from `first` on.
    pub(in super::super) fn skip(self, first: usize) -> Self {
        match self {
            Self::F32(lines) => Self::F32(&lines[first..]),
            Self::F16(lines) => Self::F16(&lines[first..]),
        }
    }

    /// The numbers of a line.
    #[inline(always)]
    pub(in super::super) fn load<I: Isa>(self, isa: I, line: usize) -> I::F {
        match self {
            Self::F32(lines) => isa.load(&lines[line]),
            Self::F16(lines) => isa.load_f16(&lines[line]),
        }
    }
}

/// A product of rows with tiles of a cache.
pub(in super::super) struct CacheTiles<'a> {
    pub lines: TileLines<'a>,
    /// Lines from one tile to the next.
    pub stride: usize,
    /// Lines of a tile that are used, the first ones.
    pub used: usize,
    pub tiles: usize,
    /// The sums that the product continues, as `[tile][row]`; zeros if it is empty.
    pub begun: &'a [[f32; LANES]],
}

impl CacheTiles<'_> {
    /// Multiplies `rows` by the tiles.
    pub(in super::super) fn multiply(
        self,
        isa: IsaKind,
        rows: Rows<'_>,
        sums: &mut Sums,
        finish: &mut Finish<'_>,
    ) {
        let Self { stride, used, tiles, begun, .. } = self;
        match self.lines {
            TileLines::F32(steps) => {
                Piece::<F32> { steps, stride, used, rows, begun }.run(isa, 0..tiles, sums, finish);
            }
            TileLines::F16(steps) => {
                Piece::<F16> { steps, stride, used, rows, begun }.run(isa, 0..tiles, sums, finish);
            }
        }
    }
}

/// A product with tiles of one storage.
struct Piece<'a, S: StorageFormat> {
    steps: &'a [S::Step],
    /// Steps from one tile to the next.
    stride: usize,
    /// Steps of a tile that are used.
    used: usize,
    rows: Rows<'a>,
    /// The sums of each tile to begin with; zeros if it is empty.
    begun: &'a [[f32; LANES]],
}

impl<'a, S: StorageFormat> Piece<'a, S> {
    fn of(steps: &'a [S::Step], inputs: usize, rows: Rows<'a>) -> Self {
        let stride = inputs.div_ceil(S::INPUTS);
        Self { steps, stride, used: stride, rows, begun: &[] }
    }

    fn run(self, isa: IsaKind, tiles: Range<usize>, sums: &mut Sums, finish: &mut Finish<'_>) {
        for first in tiles.clone().step_by(SPAN) {
            let tiles = first..tiles.end.min(first + SPAN);
            let count = self.rows.count;
            sums.clear();
            if !self.begun.is_empty() {
                sums.extend(&self.begun[tiles.start * count..tiles.end * count]);
            }
            sums.resize(tiles.len() * count, [0.0; LANES]);
            isa.run(Span { piece: &self, tiles, sums });
            finish(first, sums);
        }
    }
}

/// The tiles of a piece whose sums are finished together.
struct Span<'a, S: StorageFormat> {
    piece: &'a Piece<'a, S>,
    tiles: Range<usize>,
    sums: &'a mut Sums,
}

impl<S: StorageFormat> Kernel for Span<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Piece { stride, used, rows: Rows { count, words }, .. } = *self.piece;
        // The last tile may end with the steps that are used.
        let span = &self.piece.steps[self.tiles.start * stride..];
        let tiles = self.tiles.len();
        let groups = const { Groups::new::<S>(I::KIND) };
        let turn = if count <= groups.most {
            used.next_multiple_of(S::STEPS).max(1)
        } else {
            (TURN / size_of::<S::Step>()).next_multiple_of(S::STEPS)
        };
        let per_row = used.div_ceil(S::STEPS);
        let words = &words[..count * per_row * size_of::<S::Value<I>>() / size_of::<u32>()];
        let values: &[S::Value<I>] = bytemuck::cast_slice(words);
        for from in (0..used).step_by(turn) {
            let until = used.min(from + turn);
            for (row, rows) in groups.split(count) {
                let part = from / S::STEPS * rows..until.div_ceil(S::STEPS) * rows;
                let group = &values[row * per_row..][part];
                let block = StepRange { span, stride, from, until, tiles, count };
                block.run_rows::<I, S>(isa, rows, group, &mut self.sums[row..]);
            }
        }
    }
}

/// The maximum numbers of rows for which the sums of four tiles, and of two, fit the
/// registers.
const fn most_rows<I: Isa, S: StorageFormat>() -> [usize; 2] {
    match I::KIND {
        IsaKind::Avx512 => S::MOST_ROWS,
        // Multiply-adds take weights from memory, which leaves registers for sums.
        IsaKind::Avx2 | IsaKind::AvxVnni => [0, S::AVX2_PAIRED_ROWS],
        _ => [0, if S::AVX2_PAIRED_ROWS < 2 { S::AVX2_PAIRED_ROWS } else { 2 }],
    }
}

/// Some steps of the tiles of a span.
#[derive(Clone, Copy)]
struct StepRange<'a, T> {
    span: &'a [T],
    stride: usize,
    from: usize,
    until: usize,
    tiles: usize,
    /// Distance between the sums of two tiles.
    count: usize,
}

impl<T: Copy> StepRange<'_, T> {
    /// Chooses the kernel for a number of rows.
    #[inline(always)]
    fn run_rows<I: Isa, S: StorageFormat<Step = T>>(
        self,
        isa: I,
        rows: usize,
        values: &[S::Value<I>],
        sums: &mut [[f32; LANES]],
    ) {
        macro_rules! choose {
            ($($m:literal)*) => {
                match rows {
                    $($m => {
                        if const { $m <= Groups::new::<S>(I::KIND).most } {
                            self.run_tiles::<I, S, $m>(isa, values.as_chunks().0, sums);
                        }
                    })*
                    _ => unreachable!("{rows} rows are more than a group"),
                }
            };
        }
        choose!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
    }

    /// Processes the tiles, as many at once as there are registers for.
    #[inline(always)]
    fn run_tiles<I: Isa, S: StorageFormat<Step = T>, const M: usize>(
        self,
        isa: I,
        values: &[[S::Value<I>; M]],
        sums: &mut [[f32; LANES]],
    ) {
        let mut tile = 0;
        if const { M <= most_rows::<I, S>()[0] } {
            while tile + 4 <= self.tiles {
                self.strip::<I, S, M, 4>(isa, tile, values, sums);
                tile += 4;
            }
        }
        if const { M <= most_rows::<I, S>()[1] } {
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
    fn strip<I: Isa, S: StorageFormat<Step = T>, const M: usize, const N: usize>(
        self,
        isa: I,
        first: usize,
        values: &[[S::Value<I>; M]],
        sums: &mut [[f32; LANES]],
    ) {
        let tiles: [&[T]; N] =
            std::array::from_fn(|n| &self.span[(first + n) * self.stride..][self.from..self.until]);
        let mut held = [[isa.splat(0.0); M]; N];
        for n in 0..N {
            for m in 0..M {
                held[n][m] = isa.load(&sums[(first + n) * self.count + m]);
            }
        }
        let Ahead { near, far } = const { Ahead::new::<S>(I::KIND) };
        let count = self.until - self.from;
        let tile = self.stride * size_of::<T>();
        for (i, values) in values.iter().enumerate() {
            let steps = i * S::STEPS..count.min((i + 1) * S::STEPS);
            // Near the end of its tile, a stream of prefetches continues in the next
            // strip.
            let left = (count - steps.start) * size_of::<T>();
            let ahead = |bytes| if left > bytes { bytes } else { bytes + (N - 1) * tile };
            let (near, far) = (ahead(near), far.map(ahead));
            let parts: [&[T]; N] = std::array::from_fn(|n| &tiles[n][steps.clone()]);
            #[allow(clippy::needless_range_loop)] // `at` indexes all parts
            for at in 0..steps.len() {
                let weights: [&T; N] = std::array::from_fn(|n| &parts[n][at]);
                let begins_line = at.is_multiple_of(LINE.div_ceil(size_of::<T>()));
                if const { !matches!(I::KIND, IsaKind::Portable) } && begins_line {
                    for w in weights {
                        prefetch_lines(w, near, far);
                    }
                }
                S::step(isa, weights, values, at, &mut held);
            }
        }
        for n in 0..N {
            for m in 0..M {
                isa.store(held[n][m], &mut sums[(first + n) * self.count + m]);
            }
        }
    }
}

/// Prefetches the weights that lie `near` and `far` bytes after `weights`.
#[inline(always)]
fn prefetch_lines<T>(weights: &T, near: usize, far: Option<usize>) {
    let mut line = 0;
    while line < size_of::<T>() {
        prefetch(weights, near + line, false);
        if let Some(far) = far {
            prefetch(weights, far + line, true);
        }
        line += LINE;
    }
}
