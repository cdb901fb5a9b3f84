//! Fits the costs of rounds: T as a function of rows and context, and likewise the times of
//! drafting, verification and everything else.
//!
//! A draft model that runs between target passes changes the contents of the processor's caches, so
//! T is fitted per drafter. It does not depend on the sampling setting. The other parts are fitted
//! per method and sampling setting. All draft lengths of a method share a fit, so that it has few
//! coefficients and many rounds.

use std::collections::BTreeMap;

use super::part_cost::PartCost;
use super::row_sums::{RowSums, add_rows};
use super::time_sums::TimeSums;

/// The keys by which cells share costs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CostKeys {
    /// Cells with the same key share T.
    pub passes: String,
    /// Cells with the same key share the costs of drafting, verification and everything else.
    pub parts: String,
}

/// The fitted costs of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CostModel {
    passes: BTreeMap<String, PartCost>,
    /// Drafting, verification, other.
    parts: BTreeMap<String, [PartCost; 3]>,
}

impl CostModel {
    /// Fits the costs to the rounds of cells, each given by its keys and by sums with one entry
    /// per number of rows.
    pub fn fit<'c>(cells: impl IntoIterator<Item = (&'c CostKeys, &'c [RowSums])>) -> Self {
        let mut passes = BTreeMap::<&String, Vec<RowSums>>::new();
        let mut parts = BTreeMap::<&String, Vec<RowSums>>::new();
        for (keys, sums) in cells {
            for own in sums {
                add_rows(passes.entry(&keys.passes).or_default(), *own);
                add_rows(parts.entry(&keys.parts).or_default(), *own);
            }
        }
        let target = |(key, sums): (&String, Vec<RowSums>)| {
            Some((key.clone(), PartCost::fit(&sums, |times| times.target)?))
        };
        let others = |(key, sums): (&String, Vec<RowSums>)| {
            let fit = |part: fn(&TimeSums) -> f64| PartCost::fit(&sums, part);
            let fitted = [fit(|t| t.draft)?, fit(|t| t.verify)?, fit(|t| t.other)?];
            Some((key.clone(), fitted))
        };
        Self {
            passes: passes.into_iter().filter_map(target).collect(),
            parts: parts.into_iter().filter_map(others).collect(),
        }
    }

    /// The time of all rounds of a cell, in µs; `None` if no cell with its keys was fitted.
    pub fn sum_us(&self, keys: &CostKeys, sums: &[RowSums]) -> Option<f64> {
        let (pass, parts) = (self.passes.get(&keys.passes)?, self.parts.get(&keys.parts)?);
        let all = || [pass].into_iter().chain(parts);
        Some(sums.iter().flat_map(|own| all().map(|part| part.sum_us(own))).sum())
    }
}
