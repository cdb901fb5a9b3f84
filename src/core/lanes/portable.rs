//! The reference: plain Rust on arrays.

use super::integers::{FOUR, GroupBytes, IntegerProducts, IntegerWeights, Integers};
use super::{BLOCK, Bytes, E4M3_BITS, Fours, Isa, IsaKind, LANES};

/// Needs no processor features. Without a hardware instruction for it, fused
/// multiply-add is computed in software: the same bits, but slowly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable;

fn each<R>(f: impl Fn(usize) -> R) -> [R; LANES] {
    std::array::from_fn(f)
}

impl Isa for Portable {
    const KIND: IsaKind = IsaKind::Portable;
    type F = [f32; LANES];
    type Quants = Fours;
    fn splat(self, x: f32) -> Self::F {
        [x; LANES]
    }
    fn load(self, x: &[f32; LANES]) -> Self::F {
        *x
    }
    fn store(self, x: Self::F, to: &mut [f32; LANES]) {
        *to = x;
    }
    fn load_f16(self, x: &[u16; LANES]) -> Self::F {
        each(|i| half::f16::from_bits(x[i]).to_f32())
    }
    fn load_e4m3(self, x: &[u8; LANES]) -> Self::F {
        let bits = |byte: u8| (i16::from(byte.cast_signed()) << 7).cast_unsigned() & E4M3_BITS;
        each(|i| half::f16::from_bits(bits(x[i])).to_f32())
    }
    fn load_u8(self, x: &[u8; LANES]) -> Self::F {
        each(|i| f32::from(x[i]))
    }
    fn load_i8(self, x: &[u8; LANES]) -> Self::F {
        each(|i| f32::from(x[i].cast_signed()))
    }
    fn load_bf16_first(self, x: &[[u16; 2]; LANES]) -> Self::F {
        each(|i| f32::from_bits(u32::from(x[i][0]) << 16))
    }
    fn load_bf16_second(self, x: &[[u16; 2]; LANES]) -> Self::F {
        each(|i| f32::from_bits(u32::from(x[i][1]) << 16))
    }
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        each(|i| a[i] + b[i])
    }
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        each(|i| a[i] - b[i])
    }
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        each(|i| a[i] * b[i])
    }
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        each(|i| a[i] / b[i])
    }
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        each(|i| a[i].mul_add(b[i], c[i]))
    }
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        each(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        each(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    fn exp2_integer(self, n: Self::F) -> Self::F {
        each(|i| f32::from_bits(((n[i] as i32 + 127) as u32) << 23))
    }
    fn to_f32(self, x: Self::I) -> Self::F {
        each(|i| x[i] as f32)
    }
    fn dot<const M: usize>(self, w: &Bytes, x: [&Fours; M]) -> [Self::I; M] {
        let weight = |lane, input| {
            let (at, flipped) = Self::KIND.byte(lane, input);
            i32::from((w[at] ^ flipped).cast_signed())
        };
        x.map(|row| {
            let values = row.quants.as_flattened();
            each(|lane| (0..BLOCK).map(|i| weight(lane, i) * i32::from(values[i])).sum())
        })
    }
}

impl IntegerProducts for Portable {
    type I = [i32; LANES];
    type B = GroupBytes;

    fn bytes(self, from: &GroupBytes, _: usize) -> GroupBytes {
        *from
    }

    fn field(self, x: GroupBytes, shift: i32, mask: u8) -> GroupBytes {
        x.map(|byte| mask & if shift < 0 { byte << -shift } else { byte >> shift })
    }

    fn join(self, a: GroupBytes, b: GroupBytes) -> GroupBytes {
        std::array::from_fn(|i| a[i] | b[i])
    }

    fn look_up(self, table: &[u8; 16], x: GroupBytes) -> GroupBytes {
        x.map(|byte| table[usize::from(byte)])
    }

    fn dot_groups<W: IntegerWeights, const COUNT: usize, const M: usize>(
        self,
        (w, offset): (&W, i32),
        first: usize,
        x: [&Integers; M],
    ) -> [[i32; LANES]; M] {
        let mut sums = [[0; LANES]; M];
        for group in first..first + COUNT {
            for (i, weight) in w.group(self, 0, group).into_iter().enumerate() {
                for (sums, x) in sums.iter_mut().zip(x) {
                    let value = i32::from(x.quants[group][i % FOUR]);
                    sums[i / FOUR] += (i32::from(weight) - offset) * value;
                }
            }
        }
        sums
    }
}
