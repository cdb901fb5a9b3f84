//! Pearson's test over several cases at once.

use std::collections::BTreeMap;

use super::cases::RoundCase;
use crate::distribution::Token;
use crate::exactness::joint::JointDistribution;
use crate::exactness::monte_carlo::{TestPower, merged_cells};

/// How often each text came up in a case.
pub(super) type TextCounts = BTreeMap<Vec<Token>, u64>;

/// The quantiles of half the level 1e-3, whose other half is for bets, and of a power of 0.9.
const POWER: TestPower = TestPower { z_level: 3.290_527, z_power: 1.281_552 };

/// The quantile of 1e-6, and of the same power: what a law must differ by to be ruled out as
/// the law that was found.
pub(super) const UNLIKELY: TestPower = TestPower { z_level: 4.753_424, ..POWER };

/// X² of the counts of all cases.
#[derive(Debug, Clone, Copy)]
pub(super) struct PooledFit {
    pub(super) statistic: f64,
    pub(super) critical: f64,
    /// Rounds with a text that a law excludes.
    pub(super) impossible: u64,
    /// The total variation, in the root mean square over the cases, that is found in nine of
    /// ten tests.
    pub(super) min_detectable_tv: f64,
}

impl PooledFit {
    /// Tests the counts against one law per case.
    pub(super) fn test<'l>(
        counts: &[TextCounts],
        laws: impl Iterator<Item = &'l JointDistribution>,
        power: TestPower,
    ) -> Self {
        let (mut statistic, mut freedom, mut impossible) = (0.0, 0.0, 0);
        let (mut all, mut unseen) = (0.0, 0.0);
        for (counts, law) in counts.iter().zip(laws) {
            let possible = |text| law.get(text).is_some_and(|&p| p > 0.0);
            impossible += counts.iter().filter(|(t, _)| !possible(*t)).map(|(_, n)| n).sum::<u64>();
            let rounds = counts.values().sum::<u64>() as f64;
            let (cells, merged) = merged_cells(counts, law, rounds);
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

    /// As [`Self::test`] with the laws that rounds must have.
    pub(super) fn of_target(counts: &[TextCounts], cases: &[RoundCase]) -> Self {
        Self::test(counts, cases.iter().map(|case| &case.expected), POWER)
    }

    /// Whether the laws make the counts plausible.
    pub(super) fn is_plausible(&self) -> bool {
        self.impossible == 0 && self.statistic <= self.critical
    }
}

/// What so many rounds per case would detect.
fn detectable(cases: &[RoundCase], rounds: u64) -> f64 {
    // The merging of cells asks how many counts are expected, not what they are.
    let counts = cases.iter().map(|case| TextCounts::from([(most_probable(case), rounds)]));
    PooledFit::of_target(&counts.collect::<Vec<_>>(), cases).min_detectable_tv
}

fn most_probable(case: &RoundCase) -> Vec<Token> {
    let most = case.expected.iter().max_by(|a, b| a.1.total_cmp(b.1));
    most.map(|(text, _)| text.clone()).unwrap_or_default()
}

/// The rounds per case that find a total variation of `detect`.
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
    use crate::exactness::external::cases::{round_cases, sampled_cases};

    #[test]
    fn what_is_to_be_found_decides_on_the_rounds() {
        for (vocab, k, detect) in [(4, 3, 0.01), (4, 3, 0.03), (3, 2, 0.03), (2, 1, 0.03)] {
            let cases = sampled_cases(round_cases(vocab, k).unwrap());
            let rounds = rounds_to_find(&cases, detect);
            assert!(detectable(&cases, rounds) <= detect);
            assert!(detectable(&cases, rounds - rounds / 8) > detect);
        }
    }
}
