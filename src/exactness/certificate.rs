//! The result of a certification, as data and as a table for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Serialize;

use super::mutants::{CHECKS, MutantReport};

/// What is known of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The enumerated joint law equals the target's.
    Exact,
    /// Sampled generations are what the law makes plausible.
    Consistent,
    /// Not claimed to be exact: the total variation is measured.
    Measured,
    /// Refuted, vacuous, or not runnable.
    Failed,
}

/// One method on one toy under one kind of sampling.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CertificateCell {
    /// Verifier, drafter and length policy.
    pub method: String,
    /// The verifier.
    pub verifier: &'static str,
    /// The drafter.
    pub drafter: String,
    /// The length policy.
    pub length: &'static str,
    /// What is guaranteed: D, G, P or X.
    pub class: String,
    /// The toy pair.
    pub toy: &'static str,
    /// The kind of sampling.
    pub sampler: &'static str,
    /// Draft length.
    #[serde(rename = "K")]
    pub k: usize,
    /// Rounds walked, or generations sampled.
    pub paths: usize,
    /// Total variation of the joint law from the target's; none where it was
    /// sampled instead of enumerated.
    pub max_tv: Option<f64>,
    /// The smallest total variation that would have been refuted.
    pub min_detectable_tv: f64,
    /// What came out.
    pub verdict: Verdict,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Everything that was checked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Certificate {
    /// The methods.
    pub cells: Vec<CertificateCell>,
    /// The known-wrong methods and what refutes them.
    pub mutants: Vec<MutantReport>,
}

impl Certificate {
    /// Whether no cell failed and no mutant survived.
    pub fn holds(&self) -> bool {
        self.failures().is_empty()
    }

    /// One sentence per failed cell and surviving mutant.
    pub fn failures(&self) -> Vec<String> {
        let cells = self.cells.iter().filter(|c| c.verdict == Verdict::Failed).map(|c| {
            let reason = c.reason.as_deref().unwrap_or("no reason");
            format!("{} on {} at {}, K = {}: {reason}", c.method, c.toy, c.sampler, c.k)
        });
        let mutants = self.mutants.iter().filter(|m| m.killed_by.is_empty());
        cells.chain(mutants.map(|m| format!("mutant {} survives every check", m.name))).collect()
    }

    /// The table of methods, one line each for what was enumerated and what was
    /// sampled, the kill matrix, and the failures.
    pub fn table(&self) -> String {
        let mut out = String::new();
        self.write_methods(&mut out);
        self.write_kills(&mut out);
        for failure in self.failures() {
            let _ = writeln!(out, "FAILED {failure}");
        }
        out
    }

    fn write_methods(&self, out: &mut String) {
        let mut groups = BTreeMap::<(usize, bool), Vec<&CertificateCell>>::new();
        let mut order = Vec::<&str>::new();
        for cell in &self.cells {
            let at = order.iter().position(|m| *m == cell.method).unwrap_or_else(|| {
                order.push(&cell.method);
                order.len() - 1
            });
            groups.entry((at, cell.max_tv.is_none())).or_default().push(cell);
        }
        let width = order.iter().map(|m| m.len()).max().unwrap_or(0).max("method".len());
        let _ = writeln!(
            out,
            "{:width$}  class  cells  {:>9}  {:>8}  {:>13}  verdict",
            "method", "paths", "max TV", "detectable TV"
        );
        for cells in groups.into_values() {
            let paths = cells.iter().map(|c| c.paths).sum::<usize>();
            let tv = cells.iter().filter_map(|c| c.max_tv).reduce(f64::max);
            let tv = tv.map_or_else(|| "-".to_owned(), |tv| format!("{tv:.1e}"));
            let detectable = cells.iter().map(|c| c.min_detectable_tv).fold(0.0, f64::max);
            let failed = cells.iter().filter(|c| c.verdict == Verdict::Failed).count();
            let classes = cells.iter().map(|c| c.class.as_str()).collect::<BTreeSet<_>>();
            let verdict = match (failed, cells[0].verdict) {
                (0, Verdict::Measured) => "measured".to_owned(),
                (0, Verdict::Consistent) => "consistent".to_owned(),
                (0, _) => "exact".to_owned(),
                (n, _) => format!("{n} FAILED"),
            };
            let _ = writeln!(
                out,
                "{:width$}  {:<5}  {:>5}  {paths:>9}  {tv:>8}  {detectable:>13.1e}  {verdict}",
                cells[0].method,
                classes.into_iter().collect::<Vec<_>>().join(","),
                cells.len(),
            );
        }
    }

    fn write_kills(&self, out: &mut String) {
        if self.mutants.is_empty() {
            return;
        }
        let width = self.mutants.iter().map(|m| m.name.len()).max().unwrap_or(0);
        let _ = writeln!(out, "\nknown-wrong methods and the checks that refute them:");
        for (i, (name, what)) in CHECKS.iter().enumerate() {
            let _ = writeln!(out, "  {} {name}: {what}", i + 1);
        }
        let numbers = (1..=CHECKS.len()).map(|i| format!("{i} ")).collect::<String>();
        let _ = writeln!(out, "{:width$}  {numbers} TV first  TV joint", "mutant");
        for mutant in &self.mutants {
            let hit = |name| if mutant.killed_by.contains(&name) { "x " } else { ". " };
            let kills = CHECKS.iter().map(|(name, _)| hit(*name)).collect::<String>();
            let (first, joint) = (mutant.tv_first_token, mutant.tv_joint);
            let _ = writeln!(out, "{:width$}  {kills} {first:>8.1e}  {joint:>8.1e}", mutant.name);
        }
    }
}
