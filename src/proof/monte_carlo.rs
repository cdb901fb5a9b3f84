//! Goodness-of-fit tests by sampling. They cover the seeded generator, which enumeration cannot
//! reach. Every test states its level and the smallest difference that it detects, because a test
//! without power passes everything.

use std::collections::BTreeMap;

use serde::Serialize;

use super::joint::JointDistribution;
use crate::core::distribution::Token;

/// The probability that a right method fails one test.
pub const LEVEL: f64 = 1e-6;
/// The quantiles of [`LEVEL`], and of a power of 0.99.
const POWER: TestPower = TestPower { z_level: 4.753_424, z_power: 2.326_348 };
/// Sequences with smaller expected counts are merged, because the χ² approximation needs at least
/// this many.
const MIN_EXPECTED: f64 = 5.0;

/// Pearson's test of counts against a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fit {
    /// Number of sequences.
    pub runs: u64,
    /// Number of cells after merging the rarest sequences.
    pub cells: usize,
    /// Pearson's X².
    pub statistic: f64,
    /// X² exceeds this with probability [`LEVEL`] under the distribution.
    pub critical: f64,
    /// Number of samples that the distribution excludes; one is enough to refute.
    pub impossible: u64,
    /// A method with this total variation is refuted with probability 0.99 for any spread of the
    /// difference. It includes the mass of the merged sequences, within which differences are not
    /// detected.
    pub min_detectable_tv: f64,
}

impl Fit {
    /// Tests independent sequences against their joint distribution.
    pub fn test(counts: &BTreeMap<Vec<Token>, u64>, dist: &JointDistribution) -> Self {
        let runs = counts.values().sum::<u64>();
        let impossible = counts
            .iter()
            .filter(|(sequence, _)| !dist.contains_key(*sequence))
            .map(|(_, n)| n)
            .sum();
        let (cells, merged) = merged_cells(counts, dist, runs as f64);
        let statistic = cells.iter().map(|(seen, expected)| (seen - expected).powi(2) / expected);
        let freedom = cells.len().saturating_sub(1).max(1) as f64;
        Self {
            runs,
            cells: cells.len(),
            statistic: statistic.sum(),
            critical: POWER.critical(freedom),
            impossible,
            min_detectable_tv: (POWER.detectable(freedom, runs as f64) + merged).min(1.0),
        }
    }

    /// Whether the counts are plausible under the distribution.
    pub fn is_plausible(&self) -> bool {
        self.impossible == 0 && self.statistic <= self.critical
    }

    /// The reason why the counts are implausible; none if they are plausible.
    pub(super) fn fault(&self) -> Option<String> {
        match self.impossible {
            0 if self.is_plausible() => None,
            0 => Some(format!("X2 = {:.0} is above {:.0}", self.statistic, self.critical)),
            n => Some(format!("{n} of {} sequences are impossible", self.runs)),
        }
    }
}

/// Observed and expected counts, and the mass of the rarest sequences. These are merged into one
/// cell with a sufficient expected count.
pub(super) fn merged_cells(
    counts: &BTreeMap<Vec<Token>, u64>,
    dist: &JointDistribution,
    runs: f64,
) -> (Vec<(f64, f64)>, f64) {
    let seen = |sequence| counts.get(sequence).copied().unwrap_or(0) as f64;
    let mut cells = dist.iter().map(|(sequence, p)| (seen(sequence), p * runs)).collect::<Vec<_>>();
    cells.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (mut rare, mut rest) = (0, (0.0, 0.0));
    while let Some(&(seen, expected)) = cells.get(rare) {
        if expected >= MIN_EXPECTED && (rare == 0 || rest.1 >= MIN_EXPECTED) {
            break;
        }
        rest = (rest.0 + seen, rest.1 + expected);
        rare += 1;
    }
    if rare > 0 {
        cells.splice(..rare, [rest]);
    }
    (cells, rest.1 / runs)
}

/// The level and the power of Pearson's test.
#[derive(Debug, Clone, Copy)]
pub(super) struct TestPower {
    /// Standard normal quantile of 1 − level.
    pub(super) z_level: f64,
    /// Standard normal quantile of the power at the detectable difference.
    pub(super) z_power: f64,
}

impl TestPower {
    /// The 1 − level quantile of χ² by Wilson and Hilferty's cube (1931). In this tail it is
    /// slightly too large for few degrees of freedom: the true level is below the nominal one,
    /// never above.
    pub(super) fn critical(self, freedom: f64) -> f64 {
        let step = 2.0 / (9.0 * freedom);
        freedom * (1.0 - step + self.z_level * step.sqrt()).powi(3)
    }

    /// The total variation whose non-centrality `λ = 4 n TV²`, the smallest possible by
    /// Cauchy–Schwarz, lifts X² above the critical value with this power. The noncentral
    /// distribution is taken as normal with mean `d + λ` and variance `2 (d + 2 λ)`.
    pub(super) fn detectable(self, freedom: f64, runs: f64) -> f64 {
        let critical = self.critical(freedom);
        let found = |lambda: f64| {
            freedom + lambda - self.z_power * (2.0 * (freedom + 2.0 * lambda)).sqrt() >= critical
        };
        let (mut low, mut high) = (0.0, 1e6);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if found(middle) { high = middle } else { low = middle }
        }
        (high / (4.0 * runs)).sqrt()
    }
}
