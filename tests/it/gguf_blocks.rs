//! Blocks of weights: the same bits as the format's own package, and as a description of
//! the format that is computed bit by bit in f64.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use specdec::checkpoint::gguf::TensorKind;

use crate::fixtures::seeded;
use crate::gguf_reader::{from_hex, made};
use crate::gguf_support::{Gguf, Tensor, opened, refused};

pub(crate) fn weights(kind: TensorKind, blocks: &[u8]) -> Vec<f32> {
    let mut weights = Vec::new();
    kind.dequantise(blocks, &mut weights);
    weights
}

#[test]
fn weights_have_the_bits_of_the_formats_own_package() {
    let made = made();
    let types = made["types"].as_object().unwrap();
    assert_eq!(types.len(), TensorKind::ALL.len());
    for kind in TensorKind::ALL {
        let vector = &types[kind.name()];
        let blocks = from_hex(&vector["blocks"]);
        let found = weights(kind, &blocks);
        let bytes = found.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
        assert_eq!(bytes, from_hex(&vector["weights"]), "{}", kind.name());
        assert_eq!(found.len(), blocks.len() / kind.bytes() * kind.length());
        assert!(kind.is_finite(&blocks));
        // A part of a block is left out.
        assert_eq!(
            weights(kind, &blocks[..blocks.len() - 1]),
            found[..found.len() - kind.length()]
        );
    }
}

#[test]
fn types_have_the_numbers_of_the_format() {
    let numbers =
        TensorKind::ALL.map(|kind| (kind.name(), kind.id().unwrap(), kind.length(), kind.bytes()));
    let wanted = [
        ("F32", 0, 1, 4),
        ("F16", 1, 1, 2),
        ("BF16", 30, 1, 2),
        ("Q8_0", 8, 32, 34),
        ("Q4_0", 2, 32, 18),
        ("Q4_1", 3, 32, 20),
        ("Q5_0", 6, 32, 22),
        ("Q5_1", 7, 32, 24),
        ("Q4_K", 12, 256, 144),
        ("Q5_K", 13, 256, 176),
        ("Q6_K", 14, 256, 210),
        ("IQ4_NL", 20, 32, 18),
        ("Q3_K", 11, 256, 110),
        ("IQ4_XS", 23, 256, 136),
        ("MXFP4", 39, 32, 17),
    ];
    assert_eq!(numbers, wanted);
}

/// A number of `width` bits from bit `at` on, the lowest bit of the first byte being bit 0.
fn bits(block: &[u8], at: usize, width: usize) -> f64 {
    let bit = |i: usize| f64::from(block[i / 8] >> (i % 8) & 1);
    (0..width).map(|i| bit(at + i) * 2f64.powi(i as i32)).sum()
}

/// A number of `width` bits in two's complement.
fn signed(block: &[u8], at: usize, width: usize) -> f64 {
    bits(block, at, width) - bits(block, at + width - 1, 1) * 2f64.powi(width as i32)
}

/// A binary number with a sign, `exponent` and `fraction` bits.
fn float(block: &[u8], at: usize, exponent: usize, fraction: usize) -> f64 {
    let bias = 2i32.pow(exponent as u32 - 1) - 1;
    let sign = 1.0 - 2.0 * bits(block, at + fraction + exponent, 1);
    let digits = bits(block, at, fraction) / 2f64.powi(fraction as i32);
    match bits(block, at + fraction, exponent) as i32 {
        0 => sign * digits * 2f64.powi(1 - bias),
        power => sign * (1.0 + digits) * 2f64.powi(power - bias),
    }
}

fn half(block: &[u8], byte: usize) -> f64 {
    float(block, 8 * byte, 5, 10)
}

/// The four low bits of integer i of 32 that begin at a byte: 16 bytes, first all low
/// halves.
fn low(block: &[u8], byte: usize, i: usize) -> f64 {
    bits(block, 8 * (byte + i % 16) + 4 * (i / 16), 4)
}

/// Six bits of scale and six of minimum of part i of a block with large scales at byte 4.
fn scale_and_minimum(block: &[u8], i: usize) -> (f64, f64) {
    let at = |byte: usize, bit: usize, width| bits(block, 8 * (4 + byte) + bit, width);
    match i {
        0..4 => (at(i, 0, 6), at(i + 4, 0, 6)),
        _ => (at(i + 4, 0, 4) + 16.0 * at(i - 4, 6, 2), at(i + 4, 4, 4) + 16.0 * at(i, 6, 2)),
    }
}

/// Weight i of a block, as the format describes it.
fn weight(kind: TensorKind, block: &[u8], i: usize) -> f64 {
    let (d, m) = (|| half(block, 0), || half(block, 2));
    let fifth = |byte: usize| 16.0 * bits(block, 8 * byte + i, 1);
    let steps =
        [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113].map(f64::from);
    // Halves of 64 weights: 32 bytes, first all low halves.
    let nibble = |byte: usize| bits(block, 8 * (byte + i / 64 * 32 + i % 32) + i / 32 % 2 * 4, 4);
    let (scale, minimum) = scale_and_minimum_of(kind, block, i / 32);
    match kind {
        TensorKind::F32 => float(block, 0, 8, 23),
        TensorKind::F16 => half(block, 0),
        TensorKind::Bf16 => float(block, 0, 8, 7),
        TensorKind::Q8_0 => d() * signed(block, 16 + 8 * i, 8),
        TensorKind::Q4_0 => d() * (low(block, 2, i) - 8.0),
        TensorKind::Q4_1 => d() * low(block, 4, i) + m(),
        TensorKind::Q5_0 => d() * (low(block, 6, i) + fifth(2) - 16.0),
        TensorKind::Q5_1 => d() * (low(block, 8, i) + fifth(4)) + m(),
        TensorKind::Iq4Nl => d() * steps[low(block, 2, i) as usize],
        TensorKind::Q4K => d() * scale * nibble(16) - m() * minimum,
        TensorKind::Q5K => {
            let fifth = 16.0 * bits(block, 8 * (16 + i % 32) + i / 32, 1);
            d() * scale * (nibble(48) + fifth) - m() * minimum
        }
        TensorKind::Q6K => {
            let (half_of, within) = (i / 128, i % 128);
            let low = bits(block, 8 * (64 * half_of + within % 64) + within / 64 * 4, 4);
            let high = bits(block, 8 * (128 + 32 * half_of + within % 32) + within / 32 * 2, 2);
            let scale = signed(block, 8 * (192 + i / 16), 8);
            half(block, 208) * scale * (low + 16.0 * high - 32.0)
        }
        TensorKind::Q3K => {
            let third = bits(block, 8 * (i % 32) + i / 32, 1);
            let pair = bits(block, 8 * (32 + i / 128 * 32 + i % 32) + i / 32 % 4 * 2, 2);
            let k = i / 16;
            let four = bits(block, 8 * (96 + k % 8) + k / 8 * 4, 4);
            let two = bits(block, 8 * (104 + k % 4) + k / 4 * 2, 2);
            half(block, 108) * (four + 16.0 * two - 32.0) * (pair + 4.0 * third - 4.0)
        }
        TensorKind::Iq4Xs => {
            let part = i / 32;
            let four = bits(block, 8 * (4 + part / 2) + part % 2 * 4, 4);
            let two = bits(block, 8 * 2 + 2 * part, 2);
            let step = steps[low(block, 8 + 16 * part, i % 32) as usize];
            d() * (four + 16.0 * two - 32.0) * step
        }
        TensorKind::Mxfp4 => {
            let numbers = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
            let choice = low(block, 1, i) as usize;
            let sign = if choice < 8 { 1.0 } else { -1.0 };
            sign * numbers[choice % 8] * 2f64.powi(bits(block, 0, 8) as i32 - 127)
        }
        _ => unreachable!("a type without a description"),
    }
}

fn scale_and_minimum_of(kind: TensorKind, block: &[u8], part: usize) -> (f64, f64) {
    match kind {
        TensorKind::Q4K | TensorKind::Q5K => scale_and_minimum(block, part),
        _ => (0.0, 0.0),
    }
}

/// Where a type has numbers whose exponent could be that of NaN: the byte with the
/// exponent's high bits.
fn exponents(kind: TensorKind) -> &'static [usize] {
    match kind {
        TensorKind::F32 => &[3],
        TensorKind::Q4_1 | TensorKind::Q5_1 | TensorKind::Q4K | TensorKind::Q5K => &[1, 3],
        TensorKind::Q6K => &[209],
        TensorKind::Q3K => &[109],
        // A power of two, which is a byte of its own.
        TensorKind::Mxfp4 => &[],
        _ => &[1],
    }
}

/// Random bytes without NaN or infinity.
pub(crate) fn random_block(kind: TensorKind, rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut block = vec![0; kind.bytes()];
    rng.fill_bytes(&mut block);
    exponents(kind).iter().for_each(|&at| block[at] &= 0b1011_1111);
    if kind == TensorKind::Mxfp4 {
        block[0] %= 253;
    }
    block
}

/// In f64 a weight is exact until it is rounded to f32: scales of 11 bits times integers of
/// at most 14 bits, plus or minus one more such number of a similar size.
#[test]
fn weights_are_those_of_the_description_rounded_once() {
    let mut rng = seeded(31);
    for kind in TensorKind::ALL {
        for _ in 0..20_000 / kind.length() {
            let block = random_block(kind, &mut rng);
            let found = weights(kind, &block);
            let wanted = (0..kind.length()).map(|i| weight(kind, &block, i) as f32);
            let wanted = wanted.map(f32::to_bits).collect::<Vec<_>>();
            // Both zeros are 0: the description has no sign for a sum.
            let found =
                found.iter().map(|w| if *w == 0.0 { 0.0f32.to_bits() } else { w.to_bits() });
            let zero = |bits: u32| if bits == 1 << 31 { 0 } else { bits };
            let wanted = wanted.into_iter().map(zero).collect::<Vec<_>>();
            assert_eq!(found.collect::<Vec<_>>(), wanted, "{}", kind.name());
        }
    }
}

#[test]
fn weights_that_are_not_finite_are_refused_in_every_type() {
    let mut rng = seeded(32);
    for kind in TensorKind::ALL {
        let blocks = (0..3).flat_map(|_| random_block(kind, &mut rng)).collect::<Vec<_>>();
        assert!(kind.is_finite(&blocks));
        for &exponent in exponents(kind) {
            for block in 0..3 {
                let mut broken = blocks.clone();
                let at = block * kind.bytes() + exponent;
                // The exponent of f16 lies in one byte, those of f32 and bf16 in two.
                broken[at] |= 0b0111_1111;
                broken[at - 1] |= 0b1000_0000;
                assert!(!kind.is_finite(&broken), "{}", kind.name());
                let bytes = broken.clone();
                let shape = vec![3, kind.length() as u64];
                let tensor = Tensor {
                    name: "t".into(),
                    shape,
                    kind: kind.id().unwrap(),
                    bytes,
                    offset: None,
                };
                let file = opened(&Gguf::default().with_tensor(tensor).bytes()).unwrap();
                let what = "model.gguf: tensor t holds NaN or infinite weights";
                refused(file.weights("t"), &[what]);
                refused(file.blocks("t"), &[what]);
            }
        }
    }
}

#[test]
fn tensors_are_read_in_pieces_without_a_seam() {
    let mut rng = seeded(33);
    // A bit more than a piece of a mebibyte, whose length is no multiple of any block's.
    for kind in [TensorKind::Q6K, TensorKind::Q5_0, TensorKind::F16] {
        let count = (1 << 20) / kind.bytes() + 7;
        let bytes = (0..count).flat_map(|_| random_block(kind, &mut rng)).collect::<Vec<_>>();
        let wanted = weights(kind, &bytes);
        let shape = vec![(count * kind.length()) as u64];
        let tensor = Tensor {
            name: "t".into(),
            shape,
            kind: kind.id().unwrap(),
            bytes: bytes.clone(),
            offset: None,
        };
        let file = opened(&Gguf::default().with_tensor(tensor).bytes()).unwrap();
        assert!(file.weights("t").unwrap() == wanted, "{}", kind.name());
        assert!(file.blocks("t").unwrap() == bytes, "{}", kind.name());
    }
}

/// Catches: powers of MXFP4 that stand for NaN, or whose largest numbers are infinite, are read.
#[test]
fn powers_of_mxfp4_that_are_too_large_are_refused() {
    let of = |power: u8| [&[power][..], &[0x77; 16]].concat();
    for (power, fine) in [(0, true), (252, true), (253, false), (255, false)] {
        assert_eq!(TensorKind::Mxfp4.is_finite(&of(power)), fine, "{power}");
        let finite = weights(TensorKind::Mxfp4, &of(power)).iter().all(|w| w.is_finite());
        assert_eq!(finite, fine, "{power}");
    }
}
