//! Bootstrap resamples of prompts, for statements about which cell is fastest.

use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

/// Resamples per statement.
pub const RESAMPLES: usize = 2000;

/// Seed of all random draws of a report. It is fixed, so a report can be reproduced byte
/// for byte, and the same for every cell, so cells are compared on the same draws.
pub const SEED: u64 = 0x5eed;

/// Calls `see` with each of [`RESAMPLES`] resamples of the clusters, one cluster per prompt. A
/// resample has the same number of clusters, drawn with replacement. To keep pairs together, put
/// both sides of a pair into one cluster.
pub(super) fn resamples<'c, C>(clusters: &'c [C], mut see: impl FnMut(&[&'c C])) {
    if clusters.is_empty() {
        return;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let mut resample = Vec::with_capacity(clusters.len());
    for _ in 0..RESAMPLES {
        resample.clear();
        resample.extend(clusters.iter().map(|_| &clusters[below(&mut rng, clusters.len())]));
        see(&resample);
    }
}

/// A uniform index below `n`, by multiplication: the values do not change with a
/// library's version, and the bias is below n / 2⁶⁴.
fn below(rng: &mut ChaCha8Rng, n: usize) -> usize {
    ((u128::from(rng.next_u64()) * n as u128) >> 64) as usize
}
