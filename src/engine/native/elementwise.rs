//! What a pass computes number by number, as kernels.

use crate::core::lanes::{Isa, Kernel, LANES, math};
use crate::engine::decoder::Activation;

/// Divides a row by its root mean square and multiplies it by the weights of a norm. If a bias
/// follows the weights, the row's mean is subtracted first, and the bias added at the end.
pub(super) struct Normed<'a> {
    pub x: &'a mut [f32],
    pub weights: &'a [f32],
    pub eps: f32,
}

impl Kernel for Normed<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let (weights, bias) = self.weights.split_at(self.x.len());
        if !bias.is_empty() {
            let mean = math::total(isa, self.x) / self.x.len() as f32;
            self.x.iter_mut().for_each(|x| *x -= mean);
        }
        let mean = math::sum_of_squares(isa, self.x) / self.x.len() as f32;
        let scale = 1.0 / (mean + self.eps).sqrt();
        for (x, weight) in self.x.iter_mut().zip(weights) {
            *x = *x * scale * weight;
        }
        for (x, bias) in self.x.iter_mut().zip(bias) {
            *x += bias;
        }
    }
}

/// `activation(gate) · up`, but for the clamped activation, which changes both.
pub(super) struct Gated<'a> {
    pub activation: Activation,
    pub gate: &'a [f32; LANES],
    pub up: &'a [f32; LANES],
}

impl Kernel for Gated<'_> {
    type Output = [f32; LANES];

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> [f32; LANES] {
        let (gate, up) = (isa.load(self.gate), isa.load(self.up));
        let (gate, up) = match self.activation {
            Activation::Silu => (math::silu(isa, gate), up),
            Activation::GeluTanh => (math::gelu_tanh(isa, gate), up),
            Activation::Clamped { alpha, limit } => {
                let (least, most) = (isa.splat(-limit), isa.splat(limit));
                let up = isa.max(least, isa.min(most, up));
                let gate = math::swish(isa, isa.min(most, gate), alpha);
                (gate, isa.add(up, isa.splat(1.0)))
            }
        };
        let mut out = [0.0; LANES];
        isa.store(isa.mul(gate, up), &mut out);
        out
    }
}

/// The activation of a product without a gate.
pub(super) struct Activated<'a> {
    pub activation: Activation,
    pub x: &'a [f32; LANES],
}

impl Kernel for Activated<'_> {
    type Output = [f32; LANES];

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> [f32; LANES] {
        let x = isa.load(self.x);
        let x = match self.activation {
            Activation::Silu => math::silu(isa, x),
            Activation::GeluTanh => math::gelu_tanh(isa, x),
            Activation::Clamped { alpha, limit } => {
                math::swish(isa, isa.min(isa.splat(limit), x), alpha)
            }
        };
        let mut out = [0.0; LANES];
        isa.store(x, &mut out);
        out
    }
}

/// The exponentials of numbers, in place.
pub(super) struct Exponentials<'a> {
    pub x: &'a mut [f32],
}

impl Kernel for Exponentials<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        for part in self.x.chunks_mut(LANES) {
            let mut lanes = [0.0; LANES];
            isa.store(math::exp(isa, math::load_part(isa, part)), &mut lanes);
            part.copy_from_slice(&lanes[..part.len()]);
        }
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
