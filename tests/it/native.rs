//! The native engine: kernels against f64, and the same bits for every shape of a pass.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use specdec::checkpoint::load;
use specdec::core::lanes::IsaKind;
use specdec::core::sampling::Logits;
use specdec::core::tree::{Draft, Row};
use specdec::engine::pool::Pool;
use specdec::engine::{Dtype, PackedMatrix, Settings, Source};
use specdec::model::{LanguageModel, Loaded, Role, Session, Want, Work, evaluate_one};

use crate::checkpoint::{Checkpoint, VOCAB};
use crate::kernel_support::{ROW_COUNTS, isas, uniform};

/// Each instruction set with each of some dtypes.
fn cases(dtypes: impl IntoIterator<Item = Dtype>) -> impl Iterator<Item = (IsaKind, Dtype)> {
    dtypes.into_iter().flat_map(|dtype| isas().map(move |isa| (isa, dtype)))
}

/// The product of `x` with the packed weights in f64, and how far an f32 chain may be from
/// it: each of `k` roundings moves a sum of magnitudes `m` by at most m · 2⁻²⁴.
fn exact(matrix: &PackedMatrix, output: usize, x: &[f32]) -> (f64, f64) {
    let row = matrix.row(output);
    let products = row.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x));
    let (sum, size) = products.fold((0.0, 0.0), |(s, m), p| (s + p, m + p.abs()));
    (sum, (x.len() + 1) as f64 * size * 2f64.powi(-24))
}

/// (Outputs, inputs, rows): one of each, whole tiles, tails, more rows than a kernel takes at
/// once, and more inputs than one turn of the kernel.
const SHAPES: &[(usize, usize, usize)] =
    &[(1, 1, 1), (16, 32, 1), (17, 33, 2), (64, 64, 5), (75, 96, 16), (130, 640, 17), (33, 31, 40)];

#[test]
fn products_match_f64_within_the_rounding_bound() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let pool = Pool::new(2).unwrap();
    for &(outputs, inputs, rows) in SHAPES {
        let weights = uniform(&mut rng, outputs * inputs);
        let x = uniform(&mut rng, rows * inputs);
        for (isa, dtype) in cases([Dtype::F32, Dtype::Bf16, Dtype::F16]) {
            let matrix = PackedMatrix::pack(isa, &weights, inputs, dtype).unwrap();
            let y = matrix.times(&pool, &x);
            for (x, y) in x.chunks(inputs).zip(y.chunks(outputs)) {
                for (output, &y) in y.iter().enumerate() {
                    let (sum, bound) = exact(&matrix, output, x);
                    let gap = (f64::from(y) - sum).abs();
                    assert!(gap <= bound, "{outputs} × {inputs}, {dtype:?}, {isa:?}: {gap}");
                }
            }
        }
    }
}

#[test]
fn stored_weights_are_within_the_precision_of_their_type() {
    let weights = uniform(&mut ChaCha8Rng::seed_from_u64(2), 48 * 64);
    for (isa, dtype) in cases(Dtype::ALL) {
        // Half a unit in the last place of 8 and 11 bits; for blocks half a step of 1/127 of
        // the largest weight, plus the rounding of the scale.
        let (relative, absolute) = match dtype {
            Dtype::F32 | Dtype::Stored => (0.0, 0.0),
            Dtype::Bf16 => (2f32.powi(-8), 0.0),
            Dtype::F16 => (2f32.powi(-11), 0.0),
            Dtype::Q8_0 => (2f32.powi(-11), 0.5 * 0.5 / 127.0),
        };
        let matrix = PackedMatrix::pack(isa, &weights, 64, dtype).unwrap();
        for (output, row) in weights.chunks(64).enumerate() {
            for (kept, given) in matrix.row(output).iter().zip(row) {
                let gap = (kept - given).abs();
                let bound = given.abs() * relative + absolute * 1.01;
                assert!(gap <= bound, "{isa:?}, {dtype:?}: {kept} {given}");
            }
        }
    }
}

#[test]
fn quantised_weights_equal_those_of_gguf_blocks() {
    let mut weights = uniform(&mut ChaCha8Rng::seed_from_u64(5), 20 * 96);
    weights[..32].fill(0.0);
    weights[32..64].iter_mut().for_each(|w| *w *= 1e-6);
    let tensor = Tensor::from_slice(&weights, (20, 96), &Device::Cpu).unwrap();
    let blocks = QTensor::quantize(&tensor, GgmlDType::Q8_0).unwrap();
    let expected = blocks.dequantize(&Device::Cpu).unwrap().to_vec2::<f32>().unwrap();
    for isa in isas() {
        let matrix = PackedMatrix::pack(isa, &weights, 96, Dtype::Q8_0).unwrap();
        for (output, expected) in expected.iter().enumerate() {
            assert_eq!(&matrix.row(output), expected, "{isa:?}, output {output}");
        }
    }
}

#[test]
fn quantised_products_are_exact_within_blocks() {
    // Blocks store these weights and values exactly, so that the product is exact as well.
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut whole = |count: usize| -> Vec<f32> {
        let mut x = (0..count).map(|_| rng.random_range(-127..=127) as f32).collect::<Vec<_>>();
        x.iter_mut().step_by(32).for_each(|first| *first = 127.0);
        x
    };
    let (weights, x) = (whole(40 * 96), whole(7 * 96));
    for isa in isas() {
        let matrix = PackedMatrix::pack(isa, &weights, 96, Dtype::Q8_0).unwrap();
        let y = matrix.times(&Pool::new(1).unwrap(), &x);
        for (x, y) in x.chunks(96).zip(y.chunks(40)) {
            for (w, y) in weights.chunks(96).zip(y) {
                let sum = w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum::<f64>();
                assert_eq!(f64::from(*y), sum, "{isa:?}");
            }
        }
    }
}

#[test]
fn values_are_quantised_to_the_nearest_step() {
    let rounded = [(3.75, 4.0), (-3.75, -4.0), (0.75, 1.0), (2.25, 2.0), (2.5, 2.0), (-3.5, -4.0)];
    for isa in isas() {
        for (value, nearest) in rounded {
            // A step of 1, since the largest value of the block is 127.
            let mut x = [0.0; 32];
            (x[0], x[9]) = (127.0, value);
            let mut weights = [0.0; 32];
            weights[9] = 1.0;
            let matrix = PackedMatrix::pack(isa, &weights, 32, Dtype::Q8_0).unwrap();
            let product = matrix.times(&Pool::new(1).unwrap(), &x)[0];
            assert_eq!(product, nearest * matrix.row(0)[9], "{isa:?}, {value}");
        }
    }
}

#[test]
fn one_value_that_is_not_finite_makes_its_row_nan() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let weights = uniform(&mut rng, 17 * 64);
    for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for at in [0, 13, 31, 63] {
            let mut x = uniform(&mut rng, 2 * 64);
            x[at] = bad;
            for isa in isas() {
                let matrix = PackedMatrix::pack(isa, &weights, 64, Dtype::Q8_0).unwrap();
                let y = matrix.times(&Pool::new(1).unwrap(), &x);
                assert!(y[..17].iter().all(|y| y.is_nan()), "{isa:?}: {bad} at {at}");
                assert!(y[17..].iter().all(|y| y.is_finite()), "{isa:?}: {bad} at {at}");
            }
        }
    }
}

#[test]
fn a_product_has_the_same_bits_for_any_rows_threads_and_isa() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    for &(outputs, inputs) in &[(75, 320), (32, 33), (16, 544)] {
        let weights = uniform(&mut rng, outputs * inputs);
        let x = uniform(&mut rng, 64 * inputs);
        for dtype in Dtype::ALL {
            let pack = |isa| PackedMatrix::pack(isa, &weights, inputs, dtype).unwrap();
            let expected = pack(IsaKind::Portable).times(&Pool::new(1).unwrap(), &x);
            for isa in isas() {
                let matrix = pack(isa);
                for (threads, rows) in ROW_COUNTS {
                    let pool = Pool::new(threads).unwrap();
                    let y = x.chunks(rows * inputs).flat_map(|x| matrix.times(&pool, x));
                    let same = y.zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(same, "{dtype:?}, {isa:?}, {threads} threads, {rows} rows");
                }
            }
        }
    }
}

fn source(folder: &std::path::Path, settings: Settings) -> Source {
    Source { settings, ..folder.to_str().unwrap().into() }
}

fn ways(checkpoint: &Checkpoint, dtype: Dtype) -> Vec<Loaded> {
    let dir = tempfile::tempdir().unwrap();
    checkpoint.write(dir.path());
    ways_of(dir.path(), &Settings { dtype: Some(dtype), ..Settings::default() })
}

/// One model, loaded for every instruction set and several numbers of threads.
pub(crate) fn ways_of(folder: &std::path::Path, settings: &Settings) -> Vec<Loaded> {
    let settings = isas().flat_map(|isa| {
        [1, 2, 3].map(|threads| {
            Settings { isa: Some(isa), threads: Some(threads), ..Settings::default() }
                .or(settings.clone())
        })
    });
    settings.map(|s| load(source(folder, s), Role::Target).unwrap()).collect()
}

fn bits(
    model: &dyn LanguageModel,
    session: &mut Session,
    context: &[u32],
    draft: &Draft,
    want: Want,
) -> Vec<Vec<u32>> {
    bits_of(evaluate_one(model, Work { session, context, draft, want }).unwrap().rows)
}

/// The bits of rows of logits.
pub(crate) fn bits_of(rows: Vec<Logits>) -> Vec<Vec<u32>> {
    let row = |logits: Logits| match logits {
        Logits::F32(row) => row.into_iter().map(f32::to_bits).collect(),
        Logits::F64(_) => panic!("a real model's logits are f32"),
    };
    rows.into_iter().map(row).collect()
}

/// The logits after each token of a text by plain decoding, with one token per pass.
pub(crate) fn plain(model: &dyn LanguageModel, text: &[u32]) -> Vec<Vec<u32>> {
    let mut session = model.session().unwrap();
    let nothing = Draft::empty(model.info().vocab);
    let rows = (1..=text.len())
        .flat_map(|n| bits(model, &mut session, &text[..n], &nothing, Want::Row(Row::CONTEXT)));
    rows.collect()
}

/// Reads a text in passes of random size, each over a tree that contains the text as one
/// path among others; returns the logits after each token from a random position on.
pub(crate) fn in_trees(
    model: &dyn LanguageModel,
    text: &[u32],
    seed: u64,
) -> Vec<(usize, Vec<u32>)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut session = model.session().unwrap();
    let mut at = rng.random_range(1..text.len());
    let mut found = Vec::new();
    while at <= text.len() {
        let mut draft = Draft::empty(model.info().vocab);
        let (mut path, mut nodes) = (None, Vec::new());
        for &token in &text[at..text.len().min(at + rng.random_range(0..9))] {
            for _ in 0..rng.random_range(0..3) {
                let parent = rng.random_range(0..=draft.len()).checked_sub(1);
                draft.certain(parent, rng.random_range(0..model.info().vocab as u32));
            }
            path = Some(draft.certain(path, token));
            nodes.extend(path);
        }
        let rows = bits(model, &mut session, &text[..at], &draft, Want::All);
        found.push((at - 1, rows[0].clone()));
        found.extend(nodes.iter().enumerate().map(|(i, &node)| (at + i, rows[node + 1].clone())));
        at += nodes.len() + 1;
    }
    found
}

/// Odd shapes: no whole tiles or blocks, and heads of an unusual width.
fn odd() -> Checkpoint {
    Checkpoint { hidden: 48, intermediate: 72, head_dim: 20, ..Checkpoint::default() }
}

/// Shapes of whole blocks, so that Q8 is not replaced by f32.
fn even() -> Checkpoint {
    Checkpoint { hidden: 64, intermediate: 96, head_dim: 16, kv_heads: 1, ..Checkpoint::default() }
}

#[test]
fn logits_have_the_same_bits_for_any_pass_threads_and_isa() {
    let text = (0..60).map(|i| (i * 31 + 3) % VOCAB as u32).collect::<Vec<_>>();
    for checkpoint in [odd(), even()] {
        for dtype in Dtype::ALL {
            let models = ways(&checkpoint, dtype);
            let expected = plain(&*models[0].model, &text);
            for (way, loaded) in models.iter().enumerate() {
                for seed in 0..3 {
                    for (at, row) in in_trees(&*loaded.model, &text, seed) {
                        assert!(row == expected[at], "{dtype:?}, way {way}, seed {seed}, {at}");
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn logits_of_a_token_have_the_same_bits_in_any_tree(seed in any::<u64>()) {
        thread_local! {
            static MODELS: Vec<Loaded> = Dtype::ALL.map(|dtype| {
                ways(&even(), dtype).pop().unwrap()
            }).into();
        }
        let text = (0..40).map(|i| (i * 17 + seed as u32 % 13) % VOCAB as u32).collect::<Vec<_>>();
        MODELS.with(|models| {
            let model = &*models[seed as usize % models.len()].model;
            let expected = plain(model, &text);
            for (at, row) in in_trees(model, &text, seed) {
                assert!(row == expected[at], "{at}");
            }
        });
    }
}

#[test]
fn a_long_text_has_the_same_bits_prefilled_in_pieces_or_at_once() {
    let checkpoint = Checkpoint { positions: 900, ..even() };
    let text = (0..700).map(|i| (i * 31 + i / 7) % VOCAB as u32).collect::<Vec<_>>();
    let models = ways(&checkpoint, Dtype::F32);
    let nothing = Draft::empty(VOCAB);
    let mut expected = None;
    for (way, loaded) in models.iter().enumerate().filter(|(way, _)| way % 3 < 2) {
        for pieces in [vec![700], vec![256, 444], vec![1, 15, 16, 17, 300, 351]] {
            let mut session = loaded.model.session().unwrap();
            let mut until = 0;
            let mut last = Vec::new();
            for piece in pieces {
                until += piece;
                last = bits(
                    &*loaded.model,
                    &mut session,
                    &text[..until],
                    &nothing,
                    Want::Row(Row::CONTEXT),
                );
            }
            assert!(*expected.get_or_insert_with(|| last.clone()) == last, "way {way}");
        }
    }
}
