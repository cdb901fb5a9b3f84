//! Measures the upper limits of this processor with which the kernels are compared: memory
//! bandwidth and fused multiply-adds.

use std::hint::black_box;
use std::io;
use std::sync::Mutex;

use memmap2::MmapMut;

use crate::core::lanes::prefetch::prefetch;
use crate::core::lanes::{Isa, IsaKind, Kernel, LANES, math};
use crate::engine::large_pages;
use crate::engine::pool::Pool;

/// Number of cache lines that a thread claims at once: 1 MiB.
const CLAIM: usize = 1 << 14;
/// Number of parts of a claim that are read in an interleaved way.
const STREAMS: usize = 4;

/// Memory for the read benchmark, in large pages like a model's weights.
#[derive(Debug)]
pub(super) struct ReadBuffer(MmapMut);

impl ReadBuffer {
    /// Allocates at least `bytes` bytes and writes each once, so that all pages are mapped.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let line = size_of::<[f32; LANES]>();
        let mut map = large_pages(bytes.max(1).next_multiple_of(line))?;
        map.fill(1);
        Ok(Self(map))
    }
}

/// Reads the memory once; all threads share the lines.
pub(super) fn read(isa: IsaKind, pool: &Pool, memory: &ReadBuffer) {
    let memory: &[[f32; LANES]] = bytemuck::cast_slice(&memory.0);
    let total = Mutex::new(0.0);
    pool.run(&|worker| {
        let mut own = 0.0;
        worker.share(memory.len().div_ceil(CLAIM), |claim| {
            let lines = &memory[claim * CLAIM..memory.len().min((claim + 1) * CLAIM)];
            own += isa.run(Sum(lines));
        })?;
        if let Ok(mut total) = total.lock() {
            *total += own;
        }
        Ok(())
    });
    black_box(total.into_inner().unwrap_or_default());
}

/// Runs fused multiply-adds in registers on all threads; returns the number of operations,
/// two per fused multiply-add.
pub(super) fn multiply_add(isa: IsaKind, pool: &Pool, rounds: usize) -> f64 {
    pool.run(&|worker| {
        worker.share(worker.threads(), |_| {
            black_box(isa.run(Chains { rounds, factor: black_box(0.5) }));
        })
    });
    let chains = if isa == IsaKind::Avx512 { 24 } else { 6 };
    (2 * chains * LANES * rounds * pool.threads()) as f64
}

struct Sum<'a>(&'a [[f32; LANES]]);

impl Kernel for Sum<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> f32 {
        let mut sums = [isa.splat(0.0); STREAMS];
        let each = self.0.len().div_ceil(STREAMS).max(1);
        let streams = self.0.chunks(each).collect::<Vec<_>>();
        for i in 0..each {
            for (sum, stream) in sums.iter_mut().zip(&streams) {
                if let Some(line) = stream.get(i) {
                    prefetch(line, 1024, false);
                    *sum = isa.add(*sum, isa.load(line));
                }
            }
        }
        let mut total = 0.0;
        for sum in sums {
            total += math::sum(isa, sum);
        }
        total
    }
}

/// Independent chains of fused multiply-adds, as many as the registers can hold.
struct Chains {
    rounds: usize,
    factor: f32,
}

impl Chains {
    #[inline(always)]
    fn run_many<I: Isa, const N: usize>(&self, isa: I) -> f32 {
        let factor = isa.splat(self.factor);
        let mut chains = [isa.splat(1.0); N];
        for _ in 0..self.rounds {
            for chain in &mut chains {
                *chain = isa.fma(*chain, factor, factor);
            }
        }
        let mut total = 0.0;
        for chain in chains {
            total += math::sum(isa, chain);
        }
        total
    }
}

impl Kernel for Chains {
    type Output = f32;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> f32 {
        if const { matches!(I::KIND, IsaKind::Avx512) } {
            self.run_many::<I, 24>(isa)
        } else {
            self.run_many::<I, 6>(isa)
        }
    }
}
