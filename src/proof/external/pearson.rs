//! Pearson's test, pooled over several cases.

use std::collections::BTreeMap;

use super::cases::RoundCase;
use crate::core::distribution::Token;
use crate::proof::joint::JointDistribution;
use crate::proof::monte_carlo::{TestPower, merged_cells};

/// The number of occurrences of each sequence in a case.
pub(super) type SequenceCounts = BTreeMap<Vec<Token>, u64>;

/// The quantiles of half the level 1e-3 and of a power of 0.9. The bets use the other half of the
/// level.
const POWER: TestPower = TestPower { z_level: 3.290_527, z_power: 1.281_552 };

/// The quantile of the level 1e-6 with the same power. It decides whether a known bug's
/// distribution is ruled out as the found one.
pub(super) const UNLIKELY: TestPower = TestPower { z_level: 4.753_424, ..POWER };

/// Pearson's X² over the counts of all cases.
#[derive(Debug, Clone, Copy)]
pub(super) struct PooledFit {
    pub(super) statistic: f64,
    pub(super) critical: f64,
    /// Number of rounds with a sequence that the distribution excludes.
    pub(super) impossible: u64,
    /// The total variation, as the root mean square over the cases, that nine of ten tests detect.
    pub(super) min_detectable_tv: f64,
}

impl PooledFit {
    /// Tests the counts against one distribution per case.
    pub(super) fn test<'l>(
        counts: &[SequenceCounts],
        dists: impl Iterator<Item = &'l JointDistribution>,
        power: TestPower,
    ) -> Self {
        let (mut statistic, mut freedom, mut impossible) = (0.0, 0.0, 0);
        let (mut all, mut unseen) = (0.0, 0.0);
        for (counts, dist) in counts.iter().zip(dists) {
            let possible = |sequence| dist.get(sequence).is_some_and(|&p| p > 0.0);
            impossible += counts.iter().filter(|(t, _)| !possible(*t)).map(|(_, n)| n).sum::<u64>();
            let rounds = counts.values().sum::<u64>() as f64;
            let (cells, merged) = merged_cells(counts, dist, rounds);
            statistic += cells.iter().map(|(n, e)| (n - e).powi(2) / e).sum::<f64>();
            freedom += cells.len().saturating_sub(1) as f64;
            all += rounds;
            unseen += merged * merged;
        }
        let unseen = (unseen / counts.len().max(1) as f64).sqrt();
        let freedom = freedom.max(1.0);
        Self {
            statistic,
            critical: power.critical(freedom),
            impossible,
            min_detectable_tv: (power.detectable(freedom, all) + unseen).min(1.0),
        }
    }

    /// As [`Self::test`], with the distributions that rounds must have.
    pub(super) fn of_target(counts: &[SequenceCounts], cases: &[RoundCase]) -> Self {
        Self::test(counts, cases.iter().map(|case| &case.expected), POWER)
    }

    /// Whether the counts are plausible under the distributions.
    pub(super) fn is_plausible(&self) -> bool {
        self.impossible == 0 && self.statistic <= self.critical
    }
}

/// The total variation that `rounds` rounds per case would detect.
fn detectable(cases: &[RoundCase], rounds: u64) -> f64 {
    // Merging depends on expected counts only, so any observed counts will do.
    let counts = cases.iter().map(|case| SequenceCounts::from([(most_probable(case), rounds)]));
    PooledFit::of_target(&counts.collect::<Vec<_>>(), cases).min_detectable_tv
}

fn most_probable(case: &RoundCase) -> Vec<Token> {
    let most = case.expected.iter().max_by(|a, b| a.1.total_cmp(b.1));
    most.map(|(sequence, _)| sequence.clone()).unwrap_or_default()
}

/// The number of rounds per case that detects a total variation of `detect`.
pub(super) fn rounds_to_find(cases: &[RoundCase], detect: f64) -> u64 {
    let mut rounds = 64_u64;
    while detectable(cases, rounds) > detect {
        rounds += rounds.div_ceil(16);
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::external::case_list::{round_cases, sampled_cases};

    #[test]
    fn the_number_of_rounds_follows_from_the_detectable_tv() {
        for (vocab, k, detect) in [(4, 3, 0.01), (4, 3, 0.03), (3, 2, 0.03), (2, 1, 0.03)] {
            let cases = sampled_cases(round_cases(vocab, k, 0));
            let rounds = rounds_to_find(&cases, detect);
            assert!(detectable(&cases, rounds) <= detect);
            assert!(detectable(&cases, rounds - rounds / 8) > detect);
        }
    }
}
