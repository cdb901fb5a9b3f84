//! The reference: plain Rust on arrays.

use super::{BLOCK, Bytes, Fours, Isa, IsaKind, LANES};

/// Needs no processor features. Without a hardware instruction for it, fused
/// multiply-add is computed in software: the same bits, but slowly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable;

fn each<R>(f: impl Fn(usize) -> R) -> [R; LANES] {
    std::array::from_fn(f)
}

impl Isa for Portable {
    const KIND: IsaKind = IsaKind::Portable;
    const REGISTERS: usize = 8;
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
    fn prefetch<T>(self, _from: &T, _bytes: usize) {}
    fn prefetch_far<T>(self, _from: &T, _bytes: usize) {}
}
