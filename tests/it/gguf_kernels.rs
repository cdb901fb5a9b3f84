//! Products with blocks of GGUF files as they are stored.

pub(crate) mod folders;

use rand_chacha::ChaCha8Rng;
use specdec::checkpoint::gguf::{RawRows, TensorKind};
use specdec::core::lanes::IsaKind;
use specdec::engine::PackedMatrix;
use specdec::engine::pool::Pool;

use crate::fixtures::seeded;
use crate::gguf_blocks::{random_block, weights};
use crate::kernel_support::{ROW_COUNTS, isas, uniform};

/// Inputs per block of values.
const BLOCK: usize = 32;

/// The types whose blocks have kernels.
fn kinds() -> impl Iterator<Item = TensorKind> {
    TensorKind::ALL.into_iter().filter(|kind| kind.length() > 1)
}

/// Rows of blocks with weights between −1 and 1 or so, as in models: scales are small.
fn random_rows(kind: TensorKind, rows: usize, inputs: usize, rng: &mut ChaCha8Rng) -> RawRows {
    let block = |_| {
        let mut block = random_block(kind, rng);
        let scales: &[usize] = match kind {
            TensorKind::Q4_1 | TensorKind::Q5_1 | TensorKind::Q4K | TensorKind::Q5K => &[1, 3],
            TensorKind::Q6K => &[209],
            TensorKind::Q3K => &[109],
            TensorKind::Mxfp4 => {
                // From 2⁻¹² to 2⁻⁵.
                block[0] = 115 + block[0] % 8;
                &[]
            }
            _ => &[1],
        };
        // An exponent of at most −8, with any sign and fraction.
        scales.iter().for_each(|&at| block[at] = block[at] & 0x83 | 0x10);
        block
    };
    let blocks = (0..rows * inputs / kind.length()).flat_map(block).collect();
    RawRows { kind, blocks }
}

fn packed(isa: IsaKind, rows: &RawRows, inputs: usize) -> PackedMatrix {
    PackedMatrix::of_blocks(isa, std::slice::from_ref(rows), inputs).unwrap()
}

/// A row as products use it: in blocks of 32, of which the largest value is 127 steps.
fn quantised(x: &[f32]) -> Vec<f64> {
    let blocks = x.chunks(BLOCK).flat_map(|block| {
        let largest = block.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let scale = largest / 127.0;
        let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        block.iter().map(move |x| f64::from((x * inverse).round_ties_even()) * f64::from(scale))
    });
    blocks.collect()
}

#[test]
fn products_with_blocks_match_f64_within_the_rounding_bound() {
    let mut rng = seeded(41);
    let pool = Pool::new(2).unwrap();
    for kind in kinds() {
        for (outputs, inputs, rows) in [(1, 256, 1), (16, 512, 2), (35, 768, 7), (48, 2048, 17)] {
            let raw = random_rows(kind, outputs, inputs, &mut rng);
            let all = weights(kind, &raw.blocks);
            let x = uniform(&mut rng, rows * inputs);
            for isa in isas() {
                let y = packed(isa, &raw, inputs).times(&pool, &x);
                for (x, y) in x.chunks(inputs).zip(y.chunks(outputs)) {
                    let x = quantised(x);
                    for (w, &y) in all.chunks(inputs).zip(y) {
                        let products = w.iter().zip(&x).map(|(w, x)| f64::from(*w) * x);
                        let sum = products.sum::<f64>();
                        let gap = (f64::from(y) - sum).abs();
                        let bound = bound(kind, w, &x);
                        assert!(gap <= bound, "{}, {isa:?}: {gap:e} > {bound:e}", kind.name());
                    }
                }
            }
        }
    }
}

/// How far a product may be from its value in f64. A block of values adds at most two terms
/// per scale, each rounded once by itself and once in the sum, and the weights were rounded
/// once. Integers and minima cancel within a weight, so the terms are larger than their sum:
/// by at most the ratio of the largest integer, 63, to a step.
fn bound(kind: TensorKind, w: &[f32], x: &[f64]) -> f64 {
    let parts = if matches!(kind, TensorKind::Q6K | TensorKind::Q3K) { 2 } else { 1 };
    let roundings = (x.len() / BLOCK * parts * 2 + 4) as f64;
    let largest = w.chunks(BLOCK).zip(x.chunks(BLOCK)).map(|(w, x)| {
        let w = w.iter().fold(0.0f32, |most, w| most.max(w.abs()));
        f64::from(w) * x.iter().map(|x| x.abs()).sum::<f64>()
    });
    let spread = if matches!(kind, TensorKind::Q8_0 | TensorKind::Q6K) { 1.0 } else { 2.0 };
    roundings * spread * largest.sum::<f64>() * 2f64.powi(-24)
}

#[test]
fn blocks_are_packed_without_a_change() {
    let mut rng = seeded(42);
    for kind in kinds() {
        let raw = random_rows(kind, 21, 512, &mut rng);
        let all = weights(kind, &raw.blocks);
        for isa in isas() {
            let matrix = packed(isa, &raw, 512);
            for (output, row) in all.chunks(512).enumerate() {
                assert_eq!(matrix.row(output), row, "{}, {isa:?}", kind.name());
            }
        }
    }
}

#[test]
fn a_product_with_blocks_has_the_same_bits_everywhere() {
    let mut rng = seeded(43);
    for kind in kinds() {
        let (outputs, inputs) = (75, 768);
        let raw = random_rows(kind, outputs, inputs, &mut rng);
        let x = uniform(&mut rng, 64 * inputs);
        let expected = packed(IsaKind::Portable, &raw, inputs).times(&Pool::new(1).unwrap(), &x);
        for isa in isas() {
            let matrix = packed(isa, &raw, inputs);
            for (threads, rows) in ROW_COUNTS {
                let pool = Pool::new(threads).unwrap();
                let y = x.chunks(rows * inputs).flat_map(|x| matrix.times(&pool, x));
                let same = y.zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{}, {isa:?}, {threads} threads, {rows} rows", kind.name());
            }
        }
    }
}

/// The extreme integers and scales of every type: sums of 16 bits in the kernels are as
/// large as they can be.
#[test]
fn the_largest_integers_do_not_overflow() {
    let pool = Pool::new(1).unwrap();
    for kind in kinds() {
        for fill in [0x00, 0xff, 0x80, 0x7f] {
            let mut block = vec![fill; kind.bytes()];
            let scales: &[usize] = match kind {
                TensorKind::Q4_1 | TensorKind::Q5_1 | TensorKind::Q4K | TensorKind::Q5K => &[0, 2],
                TensorKind::Q6K => &[208],
                TensorKind::Q3K => &[108],
                TensorKind::Mxfp4 => {
                    block[0] = 127;
                    &[]
                }
                _ => &[0],
            };
            // 1 as f16.
            scales.iter().for_each(|&at| (block[at], block[at + 1]) = (0x00, 0x3c));
            let blocks = block.repeat(17 * 256 / kind.length());
            let raw = RawRows { kind, blocks };
            let row = weights(kind, &raw.blocks)[..256].to_vec();
            for sign in [1.0, -1.0] {
                let x = vec![127.0 * sign; 256];
                let sum = row.iter().map(|w| f64::from(*w) * 127.0 * f64::from(sign)).sum::<f64>();
                for isa in isas() {
                    for y in packed(isa, &raw, 256).times(&pool, &x) {
                        // Every term and every partial sum is an integer below 2²⁴ times a
                        // power of two, or its rounding: exact to a few units.
                        let gap = (f64::from(y) - sum).abs();
                        assert!(gap <= sum.abs() * 2f64.powi(-20), "{}, {isa:?}: {y}", kind.name());
                    }
                }
            }
        }
    }
}

#[test]
fn types_side_by_side_have_the_products_of_each() {
    let mut rng = seeded(44);
    let inputs = 512;
    let kinds = [TensorKind::Q4K, TensorKind::Q6K, TensorKind::Q5_0, TensorKind::Q8_0];
    let parts = kinds.map(|kind| random_rows(kind, 48, inputs, &mut rng));
    let x = uniform(&mut rng, 9 * inputs);
    let pool = Pool::new(2).unwrap();
    for isa in isas() {
        let together = PackedMatrix::of_blocks(isa, &parts, inputs).unwrap();
        let y = together.times(&pool, &x);
        for (number, part) in parts.iter().enumerate() {
            let alone = packed(isa, part, inputs);
            assert_eq!(together.row(48 * number + 5), alone.row(5), "{isa:?}");
            let alone = alone.times(&pool, &x);
            for (y, alone) in y.chunks(4 * 48).zip(alone.chunks(48)) {
                assert_eq!(&y[48 * number..48 * (number + 1)], alone, "{isa:?}");
            }
        }
    }
}

#[test]
fn blocks_that_are_no_rows_are_refused() {
    let raw = random_rows(TensorKind::Q4K, 2, 256, &mut seeded(45));
    let sentence = PackedMatrix::of_blocks(IsaKind::Portable, &[raw], 512 + 32).unwrap_err();
    assert_eq!(sentence.to_string(), "no rows of 544 weights of type Q4_K");
}
