//! The elementwise parts of attention.

use super::matrix::TileLines;
use crate::core::lanes::{Isa, Kernel, LANES, math};
use crate::model::Feed;

/// Replaces scores by eˢᶜᵒʳᵉ⁻ᵐᵃˣ and returns their sum, with that of a sink, which has no value;
/// −∞ is none.
pub(super) struct Exponentials<'a> {
    pub(super) scores: &'a mut [f32],
    pub(super) sink: f32,
}

impl Kernel for Exponentials<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> f32 {
        let largest = math::largest(isa, self.scores).max(self.sink);
        let most = isa.splat(largest);
        let mut total = isa.splat(0.0);
        let (whole, rest) = self.scores.as_chunks_mut::<LANES>();
        for lanes in whole {
            let e = math::exp(isa, isa.sub(isa.load(lanes), most));
            isa.store(e, lanes);
            total = isa.add(total, e);
        }
        if !rest.is_empty() {
            let mut lanes = [0.0; LANES];
            isa.store(math::exp(isa, isa.sub(math::load_part(isa, rest), most)), &mut lanes);
            rest.copy_from_slice(&lanes[..rest.len()]);
            total = isa.add(total, math::load_part(isa, rest));
        }
        let sum = math::sum(isa, total);
        if self.sink == f32::NEG_INFINITY {
            return sum;
        }
        let mut sink = [0.0; LANES];
        isa.store(math::exp(isa, isa.splat(self.sink - largest)), &mut sink);
        sum + sink[0]
    }
}

/// Rotates pairs of entries, half of `x` apart, by angles.
pub(super) struct Rotated<'a> {
    pub(super) x: &'a mut [f32],
    pub(super) cos: &'a [f32],
    pub(super) sin: &'a [f32],
}

impl Kernel for Rotated<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, _: I) {
        let (low, high) = self.x.split_at_mut(self.cos.len());
        for (((a, b), cos), sin) in low.iter_mut().zip(high).zip(self.cos).zip(self.sin) {
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
        }
    }
}

/// Adds the positions of a row after the common prefix, and divides by the sum of the
/// weights.
pub(super) struct Tail<'a> {
    pub(super) sum: [f32; LANES],
    pub(super) feed: &'a Feed,
    /// The first of these positions.
    pub(super) first: usize,
    pub(super) weights: &'a [f32],
    /// Those of the slots from `from` on.
    pub(super) values: TileLines<'a>,
    pub(super) from: usize,
    pub(super) total: f32,
}

impl Kernel for Tail<'_> {
    type Output = [f32; LANES];

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> [f32; LANES] {
        let mut sum = isa.load(&self.sum);
        for (i, &weight) in self.weights.iter().enumerate() {
            let value = self.values.load(isa, slot_of(self.feed, self.first + i) - self.from);
            sum = isa.fma(value, isa.splat(weight), sum);
        }
        let mut out = [0.0; LANES];
        isa.store(isa.div(sum, isa.splat(self.total)), &mut out);
        out
    }
}

/// The slot of the `index`-th token that a token attends to.
fn slot_of(feed: &Feed, index: usize) -> usize {
    if index < feed.prefix { index } else { feed.ancestors[index - feed.prefix] }
}
