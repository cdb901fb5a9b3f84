//! What a pass computes number by number, as kernels.

use crate::core::lanes::{Isa, Kernel, LANES, math};
use crate::engine::decoder::Activation;

/// Divides a row by its root mean square and multiplies it by the weights of a norm.
pub(super) struct Normed<'a> {
    pub x: &'a mut [f32],
    pub weights: &'a [f32],
    pub eps: f32,
}

impl Kernel for Normed<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let mean = math::sum_of_squares(isa, self.x) / self.x.len() as f32;
        let scale = 1.0 / (mean + self.eps).sqrt();
        for (x, weight) in self.x.iter_mut().zip(self.weights) {
            *x = *x * scale * weight;
        }
    }
}

/// `activation(gate) · up`.
pub(super) struct Gated<'a> {
    pub activation: Activation,
    pub gate: &'a [f32; LANES],
    pub up: &'a [f32; LANES],
}

impl Kernel for Gated<'_> {
    type Output = [f32; LANES];

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> [f32; LANES] {
        let gate = isa.load(self.gate);
        let gate = match self.activation {
            Activation::Silu => math::silu(isa, gate),
            Activation::GeluTanh => math::gelu_tanh(isa, gate),
        };
        let mut out = [0.0; LANES];
        isa.store(isa.mul(gate, isa.load(self.up)), &mut out);
        out
    }
}

/// `cap · tanh(x / cap)`, in place.
pub(super) struct Capped<'a> {
    pub x: &'a mut [f32],
    pub cap: f32,
}

impl Kernel for Capped<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let cap = isa.splat(self.cap);
        let (whole, rest) = self.x.as_chunks_mut::<LANES>();
        for lanes in whole {
            let capped = isa.mul(cap, math::tanh(isa, isa.div(isa.load(lanes), cap)));
            isa.store(capped, lanes);
        }
        if !rest.is_empty() {
            let x = math::load_part(isa, rest);
            let mut lanes = [0.0; LANES];
            isa.store(isa.mul(cap, math::tanh(isa, isa.div(x, cap))), &mut lanes);
            rest.copy_from_slice(&lanes[..rest.len()]);
        }
    }
}
