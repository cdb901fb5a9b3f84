//! Checks the bits of seeded uniforms. Enumeration cannot check them: it assigns every outcome its
//! exact probability. A generator with fewer bits than a double never draws tokens in the far tail
//! of a distribution.

use std::collections::BTreeMap;

use super::joint::JointDistribution;
use super::monte_carlo::Fit;
use crate::bugs::WrapChance;
use crate::core::chance::{Chance, Purpose, Request, Seeded, Site};
use crate::core::distribution::Dist;

/// Bits of a uniform in `[0, 1)`.
const BITS: usize = 53;
/// Number of uniforms: a bit that is 0 with probability 0.61 or 0.39 is found with probability
/// 0.99, and a constant bit always.
const READ: usize = 1024;
/// Fixed before the first run.
const SEED: u64 = 2026;

/// Whether the uniform of a site is below a bound.
type Below = fn(&mut dyn Chance, Site, f64) -> bool;

/// The first unfair bit, counted from 1, of the uniforms behind coins and token draws, with an
/// adapter around the seeded generator. An address always yields the same uniform, so bisection
/// reads its bits.
pub(super) fn unfair_bit(wrap: WrapChance) -> Option<usize> {
    let coin: Below = |chance, site, bound| chance.bernoulli(site, bound);
    let token: Below = |chance, site, bound| {
        Dist::from_probs(vec![bound, 1.0 - bound])
            .is_ok_and(|dist| chance.categorical(site, &dist) == 0)
    };
    let kinds = [(Purpose::Accept, coin), (Purpose::Residual, token)];
    kinds.into_iter().find_map(|(purpose, below)| unfair(wrap, purpose, below))
}

fn unfair(wrap: WrapChance, purpose: Purpose, below: Below) -> Option<usize> {
    let mut seeded = Seeded::new(Request { seed: SEED, prompt: "bits", repeat: 0 });
    let mut chance = wrap(&mut seeded);
    chance.begin_round(0);
    let mut ones = [0; BITS];
    for node in 0..READ {
        let (mut low, mut width) = (0.0, 1.0);
        for count in &mut ones {
            width *= 0.5;
            if !below(&mut *chance, Site { purpose, node }, low + width) {
                low += width;
                *count += 1;
            }
        }
    }
    let fair = JointDistribution::from([(vec![0], 0.5), (vec![1], 0.5)]);
    let bit = ones.iter().position(|&ones| {
        let counts = BTreeMap::from([(vec![0], READ as u64 - ones), (vec![1], ones)]);
        !Fit::test(&counts, &fair).is_plausible()
    });
    bit.map(|bit| bit + 1)
}
