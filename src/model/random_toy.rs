//! Random toy pairs by number: many small models that were not chosen by hand, each
//! reproducible as `toy:random-NUMBER`.

use std::collections::BTreeMap;

use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use super::ToyPair;
use super::toy::{contexts, key};
use crate::core::distribution::Token;

/// The seed of all pairs.
const SEED: u64 = 2026;

/// A random pair with 2 to 4 tokens and a prompt of 1 to 17 tokens. Its distributions
/// depend on the last one or two tokens. In a third of the pairs about one token in
/// four is impossible; the draft is unrelated to the target, half like it or nearly
/// equal to it; every second pair has an end token. The pair is a function of `number`
/// alone.
pub fn random(number: u32) -> ToyPair {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    rng.set_stream(u64::from(number));
    let (vocab, order) = (one_of(&[2, 3, 3, 4], &mut rng), one_of(&[1, 2], &mut rng));
    let gaps = one_of(&[0.0, 0.0, 0.25], &mut rng);
    let likeness = one_of(&[0.0, 0.5, 0.9], &mut rng);
    let ends = one_of(&[false, true], &mut rng);
    let length = one_of(&[1, 2, 3, 5, 8, 17], &mut rng);
    let (mut target, mut draft) = (BTreeMap::new(), BTreeMap::new());
    for context in contexts(vocab, order) {
        let (p, other) = (
            random_distribution(vocab, gaps, &mut rng),
            random_distribution(vocab, gaps, &mut rng),
        );
        let q = p.iter().zip(other).map(|(p, q)| likeness * p + (1.0 - likeness) * q).collect();
        target.insert(key(&context), p);
        draft.insert(key(&context), q);
    }
    let mut pair = ToyPair::new(vocab, order, target, draft);
    pair.prompt = (0..length).map(|_| below(vocab, &mut rng) as Token).collect();
    pair.eos = ends.then_some(vocab as Token - 1).into_iter().collect();
    pair
}

fn random_distribution(vocab: usize, gaps: f64, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let sure = below(vocab, rng);
    let mut weight = |token| {
        let (excluded, size) = (unit(rng) < gaps && token != sure, unit(rng));
        // From 0.02 to 1.02, a few of them large.
        if excluded { 0.0 } else { 0.02 + size * size * size }
    };
    let weights = (0..vocab).map(&mut weight).collect::<Vec<_>>();
    let total = weights.iter().sum::<f64>();
    weights.into_iter().map(|w| w / total).collect()
}

/// A uniform in `[0, 1)`.
fn unit(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn below(n: usize, rng: &mut ChaCha8Rng) -> usize {
    (unit(rng) * n as f64) as usize
}

fn one_of<T: Copy>(choices: &[T], rng: &mut ChaCha8Rng) -> T {
    choices[below(choices.len(), rng)]
}
