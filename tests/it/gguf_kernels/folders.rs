//! Products with the blocks that quantised matrices of Hugging Face folders become.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use specdec::checkpoint::gguf::{RawRows, TensorKind};
use specdec::core::lanes::IsaKind;
use specdec::engine::PackedMatrix;
use specdec::engine::pool::Pool;

use super::{packed, quantised};
use crate::fixtures::{seeded, uniform as number};
use crate::kernel_support::{ROW_COUNTS, isas, uniform};

/// Number of values that are quantised together.
const BLOCK: usize = 32;
/// The bytes of e4m3 that are no numbers.
const NAN: [u8; 2] = [0x7f, 0xff];

/// The number of a byte: a sign, four bits of exponent with a bias of 7, three of fraction.
pub(crate) fn e4m3(byte: u8) -> f64 {
    let sign = if byte < 128 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(byte >> 3 & 15), f64::from(byte & 7) / 8.0);
    match exponent {
        0 => sign * fraction * 2f64.powi(-6),
        _ => sign * (1.0 + fraction) * 2f64.powi(exponent - 7),
    }
}

/// Rows of random blocks with weights between −1 and 1 or so.
fn random_rows(kind: TensorKind, rows: usize, inputs: usize, rng: &mut ChaCha8Rng) -> RawRows {
    let mut blocks = Vec::new();
    for _ in 0..rows {
        for first in (0..inputs).step_by(kind.length()) {
            let scale = (number(rng) as f32 - 0.5) / 64.0;
            blocks.extend(scale.to_le_bytes());
            let mut bytes = vec![0; kind.bytes() - 4];
            rng.fill_bytes(&mut bytes);
            if kind == TensorKind::E4m3 {
                bytes.iter_mut().for_each(|byte| *byte &= 0xbf);
                let used = bytes.len().min(inputs - first);
                bytes[used..].fill(0);
            } else {
                bytes[0] &= 15;
            }
            blocks.extend(bytes);
        }
    }
    RawRows { kind, blocks }
}

/// Numbers of inputs: of whole blocks, and of a block that is padded.
fn lengths(kind: TensorKind) -> [usize; 3] {
    if kind == TensorKind::E4m3 { [128, 512, 328] } else { [128, 512, 1152] }
}

/// Catches: the bits per weight of `docs/models.md` are those of other blocks.
#[test]
fn weights_take_the_bits_that_are_documented() {
    let bits = TensorKind::OF_FOLDERS.map(|kind| 8.0 * kind.bytes() as f64 / kind.length() as f64);
    assert_eq!(bits, [8.25, 5.25, 4.3125]);
}

#[test]
fn numbers_of_eight_bits_are_those_of_a_formula() {
    for byte in (0..=255).filter(|byte| !NAN.contains(byte)) {
        for scale in [1.0, -0.375, 3.7e-5, 1e-40] {
            let mut block = f32::to_le_bytes(scale).to_vec();
            block.extend([byte; 128]);
            let weights = RawRows { kind: TensorKind::E4m3, blocks: block.clone() }.weights(128);
            let wanted = (e4m3(byte) * f64::from(scale)) as f32;
            assert!(weights.iter().all(|weight| *weight == wanted), "{byte}: {wanted}");
            assert!(TensorKind::E4m3.is_finite(&block));
            for at in [4, 77, 131] {
                for nan in NAN {
                    let mut broken = block.clone();
                    broken[at] = nan;
                    assert!(!TensorKind::E4m3.is_finite(&broken));
                }
            }
        }
    }
}

/// Catches: an instruction set reads a number of eight bits as another one.
#[test]
fn all_numbers_of_eight_bits_are_multiplied_exactly() {
    let bytes = (0..=255).filter(|byte| !NAN.contains(byte)).collect::<Vec<u8>>();
    for scale in [1.0f32, 0.7, -1e-3, 1e30, 1e-40] {
        // Output i has the i-th byte as each of its weights.
        let row = |&byte: &u8| [&scale.to_le_bytes()[..], &[byte; 128]].concat();
        let raw = RawRows { kind: TensorKind::E4m3, blocks: bytes.iter().flat_map(row).collect() };
        for isa in isas() {
            let matrix = packed(isa, &raw, 128);
            for input in [0, 15, 16, 127] {
                let mut x = [0.0; 128];
                x[input] = 1.0;
                let products = matrix.times(&Pool::new(1).unwrap(), &x);
                for (byte, product) in bytes.iter().zip(products) {
                    // In f64 the product is exact.
                    let wanted = (e4m3(*byte) * f64::from(scale)) as f32;
                    assert_eq!(product, wanted, "{isa:?}, {byte}, {scale}");
                }
            }
        }
    }
}

#[test]
fn scales_that_are_too_large_are_not_finite() {
    for (kind, most) in [(TensorKind::E4m3, 448.0), (TensorKind::U4G32, 255.0)] {
        let is_finite = |scale: f32| {
            let mut block = vec![0; kind.bytes()];
            block[..4].copy_from_slice(&scale.to_le_bytes());
            kind.is_finite(&block)
        };
        assert!(is_finite(f32::MAX / (most * 1.001)) && is_finite(0.0) && is_finite(-1e-45));
        for scale in [f32::MAX / (most * 0.999), f32::INFINITY, f32::NAN, f32::NEG_INFINITY] {
            assert!(!is_finite(scale), "{}: {scale}", kind.name());
        }
    }
}

/// The weights of four bits, by a formula.
#[test]
fn weights_with_a_zero_point_are_those_of_a_formula() {
    let mut rng = seeded(51);
    for kind in [TensorKind::U4G32, TensorKind::U4G128] {
        let raw = random_rows(kind, 5, 256, &mut rng);
        let blocks = raw.blocks.chunks(kind.bytes()).flat_map(|block| {
            let scale = f32::from_le_bytes(block[..4].try_into().unwrap());
            (0..kind.length()).map(move |i| {
                let (part, within) = (i / 32, i % 32);
                let byte = block[5 + 16 * part + within % 16];
                let q = if within < 16 { byte & 15 } else { byte >> 4 };
                (f64::from(scale) * (f64::from(q) - f64::from(block[4]))) as f32
            })
        });
        assert_eq!(raw.weights(256), blocks.collect::<Vec<_>>(), "{}", kind.name());
    }
}

#[test]
fn blocks_are_packed_without_a_change() {
    let mut rng = seeded(52);
    for kind in TensorKind::OF_FOLDERS {
        for inputs in lengths(kind) {
            let raw = random_rows(kind, 21, inputs, &mut rng);
            let all = raw.weights(inputs);
            assert_eq!(all.len(), 21 * inputs);
            for isa in isas() {
                let matrix = packed(isa, &raw, inputs);
                for (output, row) in all.chunks(inputs).enumerate() {
                    assert_eq!(matrix.row(output), row, "{}, {isa:?}", kind.name());
                }
            }
        }
    }
}

#[test]
fn products_match_f64_within_the_rounding_bound() {
    let mut rng = seeded(53);
    let pool = Pool::new(2).unwrap();
    for kind in TensorKind::OF_FOLDERS {
        for ((outputs, rows), inputs) in [(1, 1), (37, 7), (48, 17)].into_iter().zip(lengths(kind))
        {
            let raw = random_rows(kind, outputs, inputs, &mut rng);
            let all = raw.weights(inputs);
            let x = uniform(&mut rng, rows * inputs);
            for isa in isas() {
                let y = packed(isa, &raw, inputs).times(&pool, &x);
                for (x, y) in x.chunks(inputs).zip(y.chunks(outputs)) {
                    let x = match kind {
                        TensorKind::E4m3 => x.iter().map(|&x| f64::from(x)).collect(),
                        _ => quantised(x),
                    };
                    for (w, &y) in all.chunks(inputs).zip(y) {
                        let products = w.iter().zip(&x).map(|(w, x)| f64::from(*w) * x);
                        let gap = (f64::from(y) - products.sum::<f64>()).abs();
                        let bound = bound(kind, w, &x);
                        assert!(gap <= bound, "{}, {isa:?}: {gap:e} > {bound:e}", kind.name());
                    }
                }
            }
        }
    }
}

/// How far a product may be from its value in f64: each rounding moves a sum of magnitudes m by at
/// most m · 2⁻²⁴. Numbers of eight bits have one rounding per input, one per block, and that of the
/// weight in f64's place. Integers have three for each 32 inputs, whose sum is exact.
fn bound(kind: TensorKind, w: &[f32], x: &[f64]) -> f64 {
    let size = w.iter().zip(x).map(|(w, x)| (f64::from(*w) * x).abs()).sum::<f64>();
    let roundings = match kind {
        TensorKind::E4m3 => x.len() + x.len() / 128 + 2,
        _ => 3 * x.len() / BLOCK + 2,
    };
    roundings as f64 * size * 2f64.powi(-24)
}

/// Catches: the bits of a row depend on the other rows, on threads or on the instruction set, also
/// with an odd number of tiles.
#[test]
fn a_product_has_the_same_bits_everywhere() {
    let mut rng = seeded(54);
    for kind in TensorKind::OF_FOLDERS {
        for (outputs, inputs) in [16, 75, 112].into_iter().zip(lengths(kind)) {
            let raw = random_rows(kind, outputs, inputs, &mut rng);
            let x = uniform(&mut rng, 64 * inputs);
            let one = Pool::new(1).unwrap();
            let expected = packed(IsaKind::Portable, &raw, inputs).times(&one, &x);
            for isa in isas() {
                let matrix = packed(isa, &raw, inputs);
                let counts = ROW_COUNTS.into_iter().chain((1..=17).map(|rows| (1, rows)));
                for (threads, rows) in counts {
                    let pool = Pool::new(threads).unwrap();
                    let y = x.chunks(rows * inputs).flat_map(|x| matrix.times(&pool, x));
                    let same = y.zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(same, "{}, {isa:?}, {threads} threads, {rows} rows", kind.name());
                }
            }
        }
    }
}

/// Where Q4_0 can hold the weights, both types have the same products, to the bit.
#[test]
fn a_zero_point_of_eight_has_the_products_of_q4_0() {
    let mut rng = seeded(55);
    let (outputs, inputs) = (39, 384);
    for kind in [TensorKind::U4G32, TensorKind::U4G128] {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for _ in 0..outputs * inputs / kind.length() {
            let scale = half::f16::from_f64(number(&mut rng) / 16.0);
            own.extend(scale.to_f32().to_le_bytes());
            own.push(8);
            for _ in 0..kind.length() / BLOCK {
                let mut integers = [0; 16];
                rng.fill_bytes(&mut integers);
                own.extend(integers);
                others.extend(scale.to_le_bytes());
                others.extend(integers);
            }
        }
        let own = RawRows { kind, blocks: own };
        let others = RawRows { kind: TensorKind::Q4_0, blocks: others };
        assert_eq!(own.weights(inputs), others.weights(inputs));
        let x = uniform(&mut rng, 9 * inputs);
        let pool = Pool::new(2).unwrap();
        for isa in isas() {
            let [own, others] =
                [&own, &others].map(|rows| packed(isa, rows, inputs).times(&pool, &x));
            let mut pairs = own.iter().zip(&others);
            let same = pairs.all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{}, {isa:?}", kind.name());
        }
    }
}

/// Catches: an integer product or a sum in steps overflows, or is rounded.
#[test]
fn the_largest_integers_are_exact() {
    let pool = Pool::new(1).unwrap();
    for kind in [TensorKind::U4G32, TensorKind::U4G128] {
        for (zero, byte) in [(0, 0xff), (15, 0x00), (15, 0xff), (8, 0x0f), (255, 0x00)] {
            let mut block = 1f32.to_le_bytes().to_vec();
            block.push(zero);
            block.resize(kind.bytes(), byte);
            let raw = RawRows { kind, blocks: block.repeat(17 * 256 / kind.length()) };
            for sign in [1.0, -1.0] {
                let x = [127.0 * sign; 256];
                let wanted = raw.weights(256)[..256].iter().map(|w| w * 127.0 * sign).sum::<f32>();
                for isa in isas() {
                    let y = packed(isa, &raw, 256).times(&pool, &x);
                    assert!(y.iter().all(|&y| y == wanted), "{}, {isa:?}: {y:?}", kind.name());
                }
            }
        }
    }
}

#[test]
fn types_side_by_side_have_the_products_of_each() {
    let mut rng = seeded(56);
    let inputs = 384;
    let mut parts =
        TensorKind::OF_FOLDERS.map(|kind| random_rows(kind, 48, inputs, &mut rng)).to_vec();
    parts.push(super::random_rows(TensorKind::Q8_0, 48, inputs, &mut rng));
    let x = uniform(&mut rng, 9 * inputs);
    let pool = Pool::new(2).unwrap();
    for isa in isas() {
        let together = PackedMatrix::of_blocks(isa, &parts, inputs).unwrap();
        let y = together.times(&pool, &x);
        for (number, part) in parts.iter().enumerate() {
            let alone = packed(isa, part, inputs).times(&pool, &x);
            for (y, alone) in y.chunks(4 * 48).zip(alone.chunks(48)) {
                assert_eq!(&y[48 * number..48 * (number + 1)], alone, "{isa:?}");
            }
        }
    }
}

#[test]
fn rows_that_are_no_whole_blocks_are_padded_or_refused() {
    let raw = random_rows(TensorKind::E4m3, 2, 130, &mut seeded(57));
    assert_eq!(raw.blocks.len(), 4 * TensorKind::E4m3.bytes());
    assert_eq!(packed(IsaKind::Portable, &raw, 130).row(1), raw.weights(130)[130..]);
    let raw = random_rows(TensorKind::U4G128, 2, 128, &mut seeded(58));
    let sentence = PackedMatrix::of_blocks(IsaKind::Portable, &[raw], 160).unwrap_err();
    assert_eq!(sentence.to_string(), "no rows of 160 weights of type U4G128");
}
