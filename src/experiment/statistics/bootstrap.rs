//! The cluster bootstrap: intervals by resampling whole prompts.

use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use super::quantile::quantile;

/// Resamples per interval.
pub const RESAMPLES: usize = 2000;

/// Seed of the resampling. It is fixed, so a report can be regenerated to the
/// byte, and it is the same for every cell, so cells are compared on the same
/// resamples.
pub const SEED: u64 = 0x5eed;

/// A 95 % percentile interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end, the 2.5 % quantile.
    pub lo: f64,
    /// Upper end, the 97.5 % quantile.
    pub hi: f64,
}

/// The interval of one statistic of `clusters` (one per prompt): `n` clusters
/// are drawn with replacement, [`RESAMPLES`] times. Pairing needs no further
/// care: put both sides of a pair into one cluster. `None` with fewer than two
/// clusters, which say nothing about spread, or if no resample has a value.
pub fn bootstrap<C>(clusters: &[C], statistic: impl Fn(&[&C]) -> Option<f64>) -> Option<Interval> {
    bootstrap_many(clusters, |resample| vec![statistic(resample)]).pop()?
}

/// As [`bootstrap`] for several statistics of the same resamples.
pub fn bootstrap_many<C>(
    clusters: &[C],
    statistics: impl Fn(&[&C]) -> Vec<Option<f64>>,
) -> Vec<Option<Interval>> {
    let mut values = Vec::<Vec<f64>>::new();
    resamples(clusters, |resample| {
        let statistics = statistics(resample);
        values.resize_with(values.len().max(statistics.len()), Vec::new);
        for (values, statistic) in values.iter_mut().zip(statistics) {
            values.extend(statistic);
        }
    });
    values
        .into_iter()
        .map(|mut values| {
            if clusters.len() < 2 {
                return None;
            }
            values.sort_by(f64::total_cmp);
            Some(Interval { lo: quantile(&values, 0.025)?, hi: quantile(&values, 0.975)? })
        })
        .collect()
}

/// Calls `see` with every resample of the clusters.
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

/// A uniform index below `n` by multiplication: the values are ours, not those
/// of a library's version, and the bias is below n / 2⁶⁴.
fn below(rng: &mut ChaCha8Rng, n: usize) -> usize {
    ((u128::from(rng.next_u64()) * n as u128) >> 64) as usize
}
