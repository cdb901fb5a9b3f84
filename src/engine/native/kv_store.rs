//! Keys and values of one head of one layer.
//!
//! For the scores, a head's keys are a matrix with one output per slot; for the weighted sum
//! of values, its values are a matrix with one input per slot. Both are stored that way, so
//! attention is two matrix products in f32. The products read f32 and f16 as they are; blocks
//! of q8_0 become f32 before, a part at a time, with the same bits on every processor.

#![allow(unsafe_code)] // reads buffers that a pass shares

use std::ops::Range;

use half::f16;

use super::matrix::TileLines;
use super::plane::{Across, Plane, Shape};
use crate::core::lanes::{BLOCK, Isa, IsaKind, Kernel, LANES};
use crate::model::CacheDtype;

impl CacheDtype {
    /// Bytes of a number, without scales.
    fn bytes(self) -> usize {
        match self {
            Self::F32 => size_of::<f32>(),
            Self::F16 => size_of::<f16>(),
            Self::Q8_0 => size_of::<i8>(),
        }
    }

    /// Bytes of the key, or the value, of a head with `head_dim` numbers.
    pub(crate) fn row_bytes(self, head_dim: usize) -> usize {
        let blocks = if self == Self::Q8_0 { head_dim.div_ceil(BLOCK) } else { 0 };
        head_dim * self.bytes() + blocks * size_of::<f16>()
    }
}

/// A line as f32.
type WideLine = [f32; LANES];

/// Bytes of f32 that blocks become at once: what is written then is still in a near cache when
/// the product reads it.
const AT_ONCE: usize = 1 << 16;

/// The cache of a head.
#[derive(Debug)]
pub(super) struct Head {
    dtype: CacheDtype,
    keys: Plane,
    values: Plane,
    /// Of keys and of values: the f16 scales of 32 numbers each.
    scales: Option<[Plane; 2]>,
}

impl Head {
    pub(super) fn new(dtype: CacheDtype, head_dim: usize, room: usize) -> Self {
        let bytes = dtype.bytes();
        let of = |lane| Plane::new(Shape { lane, width: head_dim, bytes }, room);
        let blocks = head_dim.div_ceil(BLOCK);
        let scales = Shape { lane: Across::Slot, width: blocks, bytes: size_of::<f16>() };
        let scales =
            (dtype == CacheDtype::Q8_0).then(|| [(); 2].map(|()| Plane::new(scales, room)));
        Self { dtype, keys: of(Across::Slot), values: of(Across::Number), scales }
    }

    /// A copy with room for `room` slots, of which the first `used` are filled.
    pub(super) fn resized(&self, used: usize, room: usize) -> Self {
        let resized = |plane: &Plane| plane.resized(used, room);
        let scales = self.scales.as_ref().map(|scales| scales.each_ref().map(resized));
        Self { dtype: self.dtype, keys: resized(&self.keys), values: resized(&self.values), scales }
    }

    /// Copies the slots `slots` of another head to those from `first` on, as [`Plane::copy`].
    pub(super) fn copy(&mut self, from: &Self, slots: Range<usize>, first: usize) {
        let planes = self.planes_mut().zip(from.planes());
        for (to, from) in planes {
            to.copy(from, slots.clone(), first);
        }
    }

    fn planes(&self) -> impl Iterator<Item = &Plane> {
        [&self.keys, &self.values].into_iter().chain(self.scales.iter().flatten())
    }

    pub(super) fn planes_mut(&mut self) -> impl Iterator<Item = &mut Plane> {
        [&mut self.keys, &mut self.values].into_iter().chain(self.scales.iter_mut().flatten())
    }

    /// Stores the key and the value of a slot.
    ///
    /// # Safety
    /// No other thread may access the head.
    pub(super) unsafe fn put(&self, slot: usize, key: &[f32], value: &[f32]) {
        for (i, (plane, row)) in [(&self.keys, key), (&self.values, value)].into_iter().enumerate()
        {
            // SAFETY: guaranteed by the caller.
            unsafe {
                match &self.scales {
                    None if self.dtype.is_f32() => plane.put(slot, row.iter().copied()),
                    None => plane.put(slot, row.iter().map(|&x| f16::from_f32(x).to_bits())),
                    Some(scales) => {
                        let blocks = || row.chunks(BLOCK).map(quantised);
                        scales[i].put(slot, blocks().map(|(scale, _)| scale.to_bits()));
                        plane.put(slot, blocks().zip(row.chunks(BLOCK)).flat_map(levels));
                    }
                }
            }
        }
    }

    /// [`Head::put`], of a head that no pass has.
    #[cfg(test)]
    pub(super) fn set(&mut self, slot: usize, key: &[f32], value: &[f32]) {
        // SAFETY: the head is borrowed mutably.
        unsafe { self.put(slot, key, value) }
    }

    /// Tiles of `lines` lines that are read at once.
    pub(super) fn tiles_at_once(&self, lines: usize) -> usize {
        let tile = lines.max(1) * size_of::<WideLine>();
        if self.scales.is_some() { (AT_ONCE / tile).max(1) } else { usize::MAX }
    }

    /// The keys of some tiles of slots, sixteen slots each: one line for every number.
    ///
    /// # Safety
    /// No thread may write to the cache.
    pub(super) unsafe fn keys<'s>(
        &'s self,
        isa: IsaKind,
        tiles: Range<usize>,
        wide: &'s mut Vec<WideLine>,
    ) -> TileLines<'s> {
        let dim = self.keys.stride();
        let lines = tiles.start * dim..tiles.end * dim;
        // SAFETY: guaranteed by the caller.
        unsafe {
            match &self.scales {
                None if self.dtype.is_f32() => return TileLines::F32(self.keys.read(lines)),
                None => return TileLines::F16(self.keys.read(lines)),
                Some([scales, _]) => {
                    let blocks = scales.stride();
                    let scales = scales.read(tiles.start * blocks..tiles.end * blocks);
                    let lines = self.keys.read(lines);
                    wide.resize(lines.len(), [0.0; LANES]);
                    isa.run(WideKeys { lines, dim, scales, blocks, to: wide });
                }
            }
        }
        TileLines::F32(wide)
    }

    /// The values of some slots, the first of which begins a tile of slots, in some tiles of
    /// sixteen numbers: one line for every slot, and the lines from a tile to the next.
    ///
    /// # Safety
    /// No thread may write to the cache.
    pub(super) unsafe fn values<'s>(
        &'s self,
        isa: IsaKind,
        (slots, tiles): (Range<usize>, Range<usize>),
        wide: &'s mut Vec<WideLine>,
    ) -> (TileLines<'s>, usize) {
        let room = self.values.stride();
        let all = tiles.start * room + slots.start..tiles.end * room;
        // SAFETY: guaranteed by the caller.
        unsafe {
            let Some([_, scales]) = &self.scales else {
                let lines = match self.dtype.is_f32() {
                    true => TileLines::F32(self.values.read(all)),
                    false => TileLines::F16(self.values.read(all)),
                };
                return (lines, room);
            };
            wide.resize(tiles.len() * slots.len(), [0.0; LANES]);
            let blocks = scales.stride();
            let scales = scales.read(slots.start / LANES * blocks..scales.tiles() * blocks);
            for (tile, to) in tiles.zip(wide.chunks_exact_mut(slots.len().max(1))) {
                let lines = tile * room + slots.start..tile * room + slots.end;
                let (lines, block) = (self.values.read(lines), tile * LANES / BLOCK);
                isa.run(WideValues { lines, scales, blocks, block, to });
            }
        }
        (TileLines::F32(wide), slots.len())
    }
}

/// The scale of a block of at most 32 numbers and the inverse of what it was before it was
/// rounded, as in GGUF files. If a number is not finite, the scale is NaN.
fn quantised(row: &[f32]) -> (f16, f32) {
    // As integers, the magnitudes of infinity and NaN are larger than those of numbers.
    let largest = row.iter().map(|x| x.abs().to_bits()).max().map_or(0.0, f32::from_bits);
    let scale = if largest.is_finite() { largest / 127.0 } else { f32::NAN };
    (f16::from_f32(scale), if scale > 0.0 { 1.0 / scale } else { 0.0 })
}

/// The numbers of a block in units of its scale.
fn levels(((_, inverse), row): ((f16, f32), &[f32])) -> impl Iterator<Item = i8> {
    row.iter().map(move |x| (x * inverse).round() as i8)
}

/// Keys as f32; the lanes of line `i` of a tile have the scales of line `i / 32`.
struct WideKeys<'a> {
    lines: &'a [[u8; LANES]],
    /// Lines of a tile.
    dim: usize,
    scales: &'a [[u16; LANES]],
    /// Scales of a tile.
    blocks: usize,
    /// A line for each of `lines`.
    to: &'a mut [WideLine],
}

impl Kernel for WideKeys<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let tiles = self.lines.chunks_exact(self.dim).zip(self.to.chunks_exact_mut(self.dim));
        for ((lines, to), scales) in tiles.zip(self.scales.chunks_exact(self.blocks)) {
            let blocks = lines.chunks(BLOCK).zip(to.chunks_mut(BLOCK));
            for ((lines, to), scale) in blocks.zip(scales) {
                let scale = isa.load_f16(scale);
                for (line, to) in lines.iter().zip(to) {
                    isa.store(isa.mul(isa.load_i8(line), scale), to);
                }
            }
        }
    }
}

/// Values as f32; line `i` of sixteen slots has the scale in lane `i`.
struct WideValues<'a> {
    lines: &'a [[u8; LANES]],
    scales: &'a [[u16; LANES]],
    /// Scales of a slot.
    blocks: usize,
    /// Which of them counts here.
    block: usize,
    /// A line for each of `lines`.
    to: &'a mut [WideLine],
}

impl Kernel for WideValues<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let scales = self.scales.iter().skip(self.block).step_by(self.blocks);
        let lines = self.lines.chunks(LANES).zip(self.to.chunks_mut(LANES));
        for ((lines, to), scales) in lines.zip(scales) {
            let mut each = [0.0; LANES];
            isa.store(isa.load_f16(scales), &mut each);
            for ((line, to), scale) in lines.iter().zip(to).zip(each) {
                isa.store(isa.mul(isa.load_i8(line), isa.splat(scale)), to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::*;

    const SLOTS: usize = 37;

    /// Rows whose blocks differ in size.
    fn rows(dim: usize, seed: u64) -> Vec<Vec<f32>> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut unit = || f64::from(rng.next_u32()) / f64::from(u32::MAX) - 0.5;
        let size = |number: usize| (1 + number / BLOCK) as f64;
        let row = |slot: usize, unit: &mut dyn FnMut() -> f64| {
            (0..dim).map(|i| (unit() * size(i) * (1 + slot) as f64) as f32).collect()
        };
        (0..SLOTS).map(|slot| row(slot, &mut unit)).collect()
    }

    /// What a row is after it has been stored, by the definition of the type.
    fn stored(dtype: CacheDtype, row: &[f32]) -> Vec<f32> {
        let block = |block: &[f32]| {
            let scale = block.iter().fold(0.0f32, |most, x| most.max(x.abs())) / 127.0;
            let number = |&x: &f32| match dtype {
                CacheDtype::F32 => x,
                CacheDtype::F16 => f16::from_f32(x).to_f32(),
                CacheDtype::Q8_0 => f16::from_f32(scale).to_f32() * (x * (1.0 / scale)).round(),
            };
            block.iter().map(number).collect::<Vec<_>>()
        };
        row.chunks(BLOCK).flat_map(block).collect()
    }

    fn filled(dtype: CacheDtype, dim: usize) -> (Head, [Vec<Vec<f32>>; 2]) {
        let mut head = Head::new(dtype, dim, 64);
        let [keys, values] = [rows(dim, 1), rows(dim, 2)];
        for (slot, (key, value)) in keys.iter().zip(&values).enumerate() {
            head.set(slot, key, value);
        }
        (head, [keys, values])
    }

    fn number(lines: TileLines<'_>, line: usize, lane: usize) -> f32 {
        match lines {
            TileLines::F32(lines) => lines[line][lane],
            TileLines::F16(lines) => f16::from_bits(lines[line][lane]).to_f32(),
        }
    }

    /// Whether the head holds these keys and values, read from some slot on.
    fn assert_holds(head: &Head, dtype: CacheDtype, [keys, values]: &[Vec<Vec<f32>>; 2]) {
        let dim = keys[0].len();
        for isa in IsaKind::ALL.into_iter().filter(|isa| isa.is_available()) {
            for first in [0, 16, 32] {
                let (mut of_keys, mut of_values) = (Vec::new(), Vec::new());
                let tiles = first / LANES..SLOTS.div_ceil(LANES);
                // SAFETY: there is one thread.
                let lines = unsafe { head.keys(isa, tiles, &mut of_keys) };
                let all = (first..SLOTS, 0..dim.div_ceil(LANES));
                // SAFETY: there is one thread.
                let (rows, apart) = unsafe { head.values(isa, all, &mut of_values) };
                for slot in first..SLOTS {
                    let at = slot - first;
                    let key = |i: usize| number(lines, at / LANES * dim + i, at % LANES);
                    let value = |i: usize| number(rows, i / LANES * apart + at, i % LANES);
                    let row = |of: &dyn Fn(usize) -> f32| (0..dim).map(of).collect::<Vec<_>>();
                    let found = [row(&key), row(&value)];
                    let expected = [&keys[slot], &values[slot]].map(|row| stored(dtype, row));
                    assert_eq!(found, expected, "{dtype:?}, {isa:?}, {dim}, {first}, {slot}");
                }
            }
        }
    }

    /// Catches: a block has the scale of another; keys and values share scales; numbers are cut
    /// off, or divided by the rounded scale; f16 rounds toward zero.
    #[test]
    fn keys_and_values_are_those_that_their_type_can_hold() {
        for dtype in CacheDtype::ALL {
            for dim in [1, 5, 16, 32, 40, 64, 80] {
                let (head, rows) = filled(dtype, dim);
                assert_holds(&head, dtype, &rows);
            }
        }
    }

    /// Catches: a copy lacks scales or its last slots; parts of tiles are copied as whole ones.
    #[test]
    fn copies_hold_the_same_numbers() {
        for dtype in CacheDtype::ALL {
            for dim in [5, 40, 64] {
                let (head, mut rows) = filled(dtype, dim);
                let mut wider = head.resized(SLOTS, 112);
                assert_holds(&wider, dtype, &rows);
                for (from, to) in [(3, 20), (36, 0)] {
                    for plane in wider.planes_mut() {
                        plane.copy_slot(from, to);
                    }
                    for rows in &mut rows {
                        rows[to] = rows[from].clone();
                    }
                }
                assert_holds(&wider, dtype, &rows);
                let mut other = Head::new(dtype, dim, 48);
                for slots in [0..7, 7..33, 33..SLOTS] {
                    let first = slots.start;
                    other.copy(&wider, slots, first);
                }
                assert_holds(&other, dtype, &rows);
            }
        }
    }

    /// What is not finite must not become a number.
    /// Catches: a block that is not finite has a finite scale.
    #[test]
    fn a_number_that_is_not_finite_is_not_hidden() {
        for (dtype, odd) in [
            (CacheDtype::F16, f32::NAN),
            (CacheDtype::F16, 1e6),
            (CacheDtype::Q8_0, f32::NAN),
            (CacheDtype::Q8_0, f32::INFINITY),
        ] {
            let head = Head::new(dtype, 40, 16);
            let mut row = vec![1.0; 40];
            row[39] = odd;
            // SAFETY: there is one thread.
            unsafe { head.put(3, &row, &row) };
            let mut wide = Vec::new();
            // SAFETY: there is one thread.
            let keys = unsafe { head.keys(IsaKind::Portable, 0..1, &mut wide) };
            assert!(!number(keys, 39, 3).is_finite(), "{dtype:?} {odd}");
            // SAFETY: there is one thread.
            let (values, apart) =
                unsafe { head.values(IsaKind::Portable, (0..16, 2..3), &mut wide) };
            assert!(!number(values, 3, 7).is_finite() && apart >= 16, "{dtype:?} {odd}");
        }
    }
}
