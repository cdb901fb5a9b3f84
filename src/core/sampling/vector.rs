//! Arithmetic on a row of scores. For f32 it has the same bits on every processor.

use crate::core::distribution::{self, Blocks, Number, TokenWeights};
use crate::core::lanes::{Isa, IsaKind, Kernel, LANES, math};

/// Number of scores in a block.
pub(super) const BLOCK: usize = 4 * LANES;

/// The number type of scores.
pub(super) trait Score: Number {
    /// The largest score of each [`BLOCK`]; `None` if any score is NaN or +inf.
    fn peaks(scores: &[Self]) -> Option<Vec<Self>>;

    /// `exp((x − max) / temperature)` of every score; `max` is the largest score and finite.
    fn weights(scores: &[Self], max: f64, temperature: f64) -> TokenWeights<Self>;
}

impl Score for f64 {
    fn peaks(scores: &[Self]) -> Option<Vec<Self>> {
        let sound = scores.iter().all(|&x| x < f64::INFINITY);
        let peak = |block: &[f64]| block.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        sound.then(|| scores.chunks(BLOCK).map(peak).collect())
    }

    fn weights(scores: &[Self], max: f64, temperature: f64) -> TokenWeights<Self> {
        let mut weights = Blocks::with_capacity(scores.len());
        for block in scores.chunks(distribution::BLOCK) {
            let block = block.iter().map(|x| ((x - max) / temperature).exp());
            weights.push(&block.collect::<Vec<_>>());
        }
        weights.into_weights()
    }
}

impl Score for f32 {
    fn peaks(scores: &[Self]) -> Option<Vec<Self>> {
        IsaKind::active().run(Peaks(scores))
    }

    fn weights(scores: &[Self], max: f64, temperature: f64) -> TokenWeights<Self> {
        // Finite and above zero for every temperature: at the smallest temperatures only
        // the largest score keeps any weight, and −inf is never multiplied by zero.
        let scale = (1.0 / temperature).clamp(f32::MIN_POSITIVE.into(), f32::MAX.into()) as f32;
        IsaKind::active().run(SoftmaxWeights { scores, max: max as f32, scale }).into_weights()
    }
}

struct Peaks<'a>(&'a [f32]);

impl Kernel for Peaks<'_> {
    type Output = Option<Vec<f32>>;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> Option<Vec<f32>> {
        // Zero times a finite number is zero, zero times NaN or +inf is NaN; −inf is
        // replaced first.
        let (zero, least) = (isa.splat(0.0), isa.splat(f32::MIN));
        let (blocks, rest) = self.0.as_chunks::<BLOCK>();
        let mut peaks = Vec::with_capacity(blocks.len() + 1);
        let mut unsound = zero;
        for block in blocks {
            let mut most = isa.splat(f32::NEG_INFINITY);
            for lanes in block.as_chunks::<LANES>().0 {
                let x = isa.load(lanes);
                most = isa.max(most, x);
                unsound = isa.fma(isa.max(least, x), zero, unsound);
            }
            let mut lanes = [0.0; LANES];
            isa.store(most, &mut lanes);
            peaks.push(math::largest_of(lanes));
        }
        if !rest.is_empty() {
            peaks.push(rest.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        }
        let sound = |x: &f32| *x < f32::INFINITY;
        (math::sum(isa, unsound) == 0.0 && rest.iter().all(sound)).then_some(peaks)
    }
}

struct SoftmaxWeights<'a> {
    scores: &'a [f32],
    max: f32,
    scale: f32,
}

impl Kernel for SoftmaxWeights<'_> {
    type Output = Blocks<f32>;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> Blocks<f32> {
        let (max, scale) = (isa.splat(self.max), isa.splat(self.scale));
        let mut weights = Blocks::with_capacity(self.scores.len());
        let mut block = [0.0; distribution::BLOCK];
        for scores in self.scores.chunks(distribution::BLOCK) {
            for (lanes, scores) in block.as_chunks_mut().0.iter_mut().zip(scores.chunks(LANES)) {
                isa.store(weight(isa, math::load_part(isa, scores), max, scale), lanes);
            }
            weights.push(&block[..scores.len()]);
        }
        weights
    }
}

#[inline(always)]
fn weight<I: Isa>(isa: I, x: I::F, max: I::F, scale: I::F) -> I::F {
    math::exp(isa, isa.mul(isa.sub(x, max), scale))
}
