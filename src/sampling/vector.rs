//! Arithmetic on a row of f32 logits, with the same bits on every processor.

use crate::lanes::{Isa, IsaKind, Kernel, LANES, math};

/// The largest logit; `None` if any is NaN or +inf.
pub(super) fn largest(logits: &[f32]) -> Option<f32> {
    IsaKind::active().run(Largest(logits))
}

/// `exp((x − max) / temperature)` of every logit.
pub(super) fn weights(mut logits: Vec<f32>, max: f32, temperature: f64) -> Vec<f32> {
    // Finite and above zero for every temperature: at the smallest temperatures only the
    // largest logit keeps any weight, and −inf is never multiplied by zero.
    let scale = (1.0 / temperature).clamp(f32::MIN_POSITIVE.into(), f32::MAX.into()) as f32;
    IsaKind::active().run(SoftmaxWeights { logits: &mut logits, max, scale });
    logits
}

struct Largest<'a>(&'a [f32]);

impl Kernel for Largest<'_> {
    type Output = Option<f32>;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> Option<f32> {
        // Zero times a finite number is zero, zero times NaN or +inf is NaN; −inf is
        // replaced first.
        let (zero, least) = (isa.splat(0.0), isa.splat(f32::MIN));
        let (whole, rest) = self.0.as_chunks::<LANES>();
        let mut unsound = zero;
        for lanes in whole {
            unsound = isa.fma(isa.max(least, isa.load(lanes)), zero, unsound);
        }
        let sound = |x: &f32| *x < f32::INFINITY;
        (math::sum(isa, unsound) == 0.0 && rest.iter().all(sound))
            .then(|| math::largest(isa, self.0))
    }
}

struct SoftmaxWeights<'a> {
    logits: &'a mut [f32],
    max: f32,
    scale: f32,
}

impl Kernel for SoftmaxWeights<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let (max, scale) = (isa.splat(self.max), isa.splat(self.scale));
        let (whole, rest) = self.logits.as_chunks_mut::<LANES>();
        for lanes in whole {
            isa.store(weight(isa, isa.load(lanes), max, scale), lanes);
        }
        let mut lanes = [0.0; LANES];
        isa.store(weight(isa, math::load_part(isa, rest), max, scale), &mut lanes);
        rest.copy_from_slice(&lanes[..rest.len()]);
    }
}

#[inline(always)]
fn weight<I: Isa>(isa: I, x: I::F, max: I::F, scale: I::F) -> I::F {
    math::exp(isa, isa.mul(isa.sub(x, max), scale))
}
