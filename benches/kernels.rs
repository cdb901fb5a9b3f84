//! Microbenchmarks of matrix products and of sampling distributions: `cargo bench`.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use specdec::core::lanes::IsaKind;
use specdec::core::sampling::{History, Logits, Sampler, SamplingParams};
use specdec::engine::pool::Pool;
use specdec::engine::{Dtype, PackedMatrix};

/// A projection of the 110m shape: outputs and inputs.
const OUTPUTS: usize = 2048;
const INPUTS: usize = 768;
/// Rows of a pass: plain decoding, drafts of 4 and 15 tokens, and a part of a prompt.
const ROWS: [usize; 4] = [1, 5, 16, 256];
const VOCAB: usize = 32_000;

/// Deterministic numbers between −1 and 1 without a visible pattern.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i as f32 * 0.618_034).fract() * 2.0 - 1.0).collect()
}

fn products(c: &mut Criterion) {
    let pool = Pool::shared();
    let weights = numbers(OUTPUTS * INPUTS);
    for dtype in Dtype::ALL {
        let matrix = PackedMatrix::pack(IsaKind::active(), &weights, INPUTS, dtype);
        let matrix = matrix.expect("memory for a matrix");
        let mut group = c.benchmark_group(format!("product, {}", dtype.name()));
        for rows in ROWS {
            let x = numbers(rows * INPUTS);
            group.throughput(Throughput::Elements((rows * OUTPUTS * INPUTS) as u64));
            group.bench_with_input(BenchmarkId::from_parameter(rows), &x, |b, x| {
                b.iter(|| black_box(matrix.times(&pool, x)));
            });
        }
    }
}

fn distributions(c: &mut Criterion) {
    let logits = Logits::F32(numbers(VOCAB));
    let history = History { prompt_len: 0, context: &[], drafted: &[] };
    let mut group = c.benchmark_group("distribution");
    for (name, params) in [
        ("full", SamplingParams::default()),
        ("greedy", SamplingParams { temperature: 0.0, ..SamplingParams::default() }),
        ("top_k 50", SamplingParams { top_k: 50, ..SamplingParams::default() }),
        ("top_p 0.9", SamplingParams { top_p: 0.9, ..SamplingParams::default() }),
    ] {
        let sampler = Sampler::new(params).expect("settings in range");
        group.bench_function(name, |b| {
            b.iter(|| black_box(sampler.distribution(black_box(&logits), history)));
        });
    }
    let dist = Sampler::new(SamplingParams::default()).expect("settings in range");
    let dist = dist.distribution(&logits, history).expect("finite logits");
    group.bench_function("residual", |b| b.iter(|| black_box(dist.residual(black_box(&dist)))));
    group.bench_function("quantile", |b| b.iter(|| black_box(dist.quantile(black_box(0.7)))));
}

criterion_group!(benches, products, distributions);
criterion_main!(benches);
