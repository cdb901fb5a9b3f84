//! Distributions and toys on which tests try methods, and the outcomes of random functions.

use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use specdec::core::chance::{Chance, Exhaustive};
use specdec::core::distribution::{Dist, Token};
use specdec::model::ToyPair;

/// A uniform random number in `[0, 1)`.
pub(crate) fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// The distribution with these probabilities.
pub(crate) fn dist(probs: &[f64]) -> Dist {
    Dist::from_probs(probs.to_vec()).unwrap()
}

/// Random numbers from a fixed seed.
pub(crate) fn seeded(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// A random distribution in which some tokens are far more probable than others and about
/// one in eight is impossible, but never all of them.
pub(crate) fn random_distribution(vocab: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let sure = (uniform(rng) * vocab as f64) as usize;
    let mut weight = |token| match uniform(rng) {
        u if u < 0.125 && token != sure => 0.0,
        _ => 0.01 + uniform(rng).powi(4),
    };
    let weights = (0..vocab).map(&mut weight).collect::<Vec<_>>();
    let mass = weights.iter().sum::<f64>();
    weights.into_iter().map(|w| w / mass).collect()
}

/// Every outcome of `make` with its probability.
pub(crate) fn outcomes<T>(mut make: impl FnMut(&mut Exhaustive) -> T) -> Vec<(T, f64)> {
    let mut chance = Exhaustive::default();
    let mut found = Vec::new();
    loop {
        chance.begin_round(0);
        let outcome = make(&mut chance);
        found.push((outcome, chance.weight()));
        if !chance.advance() {
            return found;
        }
    }
}

/// Asserts equality up to the rounding of sums of at most 1e4 products.
pub(crate) fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-12, "{a} is not {b}");
}

/// A toy pair whose distributions depend on the last token.
pub(crate) fn markov(p: &[Vec<f64>], q: &[Vec<f64>]) -> ToyPair {
    let table = |dists: &[Vec<f64>]| {
        let after = dists.iter().enumerate().map(|(last, dist)| (last.to_string(), dist.clone()));
        after.chain([(String::new(), dists[0].clone())]).collect()
    };
    ToyPair::new(p.len(), 1, table(p), table(q))
}

/// A random distribution for every last token.
pub(crate) fn random_table(vocab: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
    (0..vocab).map(|_| random_distribution(vocab, rng)).collect()
}

/// The same, with every token possible in every distribution.
pub(crate) fn positive_table(vocab: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
    let share = 0.1 / vocab as f64;
    let smooth = |dist: Vec<f64>| dist.into_iter().map(|p| 0.9 * p + share).collect();
    random_table(vocab, rng).into_iter().map(smooth).collect()
}

/// A text of random tokens.
pub(crate) fn random_sequence(vocab: usize, length: usize, rng: &mut ChaCha8Rng) -> Vec<Token> {
    (0..length).map(|_| (uniform(rng) * vocab as f64) as Token).collect()
}
