//! The result of a certification, as data and as a table for people.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::forms::ClosedForm;
use super::mutants::{CHECKS, MutantReport};

/// What is known of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    pub drafter: &'static str,
    /// Its settings, where they are not the defaults.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub settings: String,
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

impl CertificateCell {
    /// The drafter, with its settings if they are not the defaults.
    fn proposer(&self) -> String {
        match &*self.settings {
            "" => self.drafter.to_owned(),
            settings => format!("{}({settings})", self.drafter),
        }
    }
}

/// Everything that was checked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Certificate {
    /// Whether every cell of the first length policy was walked, not only all
    /// pairs of properties.
    pub full: bool,
    /// The methods.
    pub cells: Vec<CertificateCell>,
    /// Numbers that are known on paper.
    pub forms: Vec<ClosedForm>,
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
        let forms = self
            .forms
            .iter()
            .filter(|form| !form.holds())
            .map(|form| format!("{} is {}, not {}", form.name, form.found, form.expected));
        let mutants = self.mutants.iter().filter(|m| m.killed_by.is_empty());
        let mutants = mutants.map(|m| format!("mutant {} survives every check", m.name));
        cells.chain(forms).chain(mutants).collect()
    }

    /// What is known of every verifier with every drafter, the kill matrix, and
    /// the failures.
    pub fn table(&self) -> String {
        let mut out = String::new();
        self.write_methods(&mut out);
        self.write_forms(&mut out);
        self.write_kills(&mut out);
        for failure in self.failures() {
            let _ = writeln!(out, "FAILED {failure}");
        }
        out
    }

    fn write_methods(&self, out: &mut String) {
        let verifiers = unique(self.cells.iter().map(|c| c.verifier));
        let drafters = unique(self.cells.iter().map(CertificateCell::proposer));
        let width = drafters.iter().map(|d| d.len()).max().unwrap_or(0);
        let _ = write!(out, "{:width$}", "");
        for verifier in &verifiers {
            let _ = write!(out, "  {verifier:>12}");
        }
        for drafter in &drafters {
            let _ = write!(out, "\n{drafter:width$}");
            for verifier in &verifiers {
                let of = |c: &&CertificateCell| c.verifier == *verifier && c.proposer() == *drafter;
                let cells = self.cells.iter().filter(of).collect::<Vec<_>>();
                let _ = write!(out, "  {:>12}", in_short(&cells));
            }
        }
        self.write_sums(out);
    }

    /// How much was looked at, by what came out.
    fn write_sums(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "\n\nThe largest total variation of an enumerated joint law, over samplers, toys, draft \
             lengths and length\npolicies; ~: sampled, as plausible as the target's; X: approximate, \
             as measured; blank: not supported.\n"
        );
        for (verdict, what) in [
            (Verdict::Exact, "enumerated and exact"),
            (Verdict::Consistent, "sampled and consistent"),
            (Verdict::Measured, "approximate and measured"),
            (Verdict::Failed, "FAILED"),
        ] {
            let cells = self.cells.iter().filter(|c| c.verdict == verdict).collect::<Vec<_>>();
            if cells.is_empty() {
                continue;
            }
            let paths = cells.iter().map(|c| c.paths).sum::<usize>();
            let detectable = cells.iter().map(|c| c.min_detectable_tv).fold(0.0, f64::max);
            let tv = cells.iter().filter_map(|c| c.max_tv).reduce(f64::max);
            let tv = tv.map_or_else(String::new, |tv| format!(", max TV {tv:.1e}"));
            let _ = writeln!(
                out,
                "{:6} cells {what}: {paths} paths{tv}; a TV of {detectable:.1e} would have been seen",
                cells.len()
            );
        }
    }

    fn write_forms(&self, out: &mut String) {
        let width = self.forms.iter().map(|form| form.name.len()).max().unwrap_or(0);
        let _ = writeln!(out, "\n{:width$}  on paper  enumerated", "known on paper");
        for ClosedForm { name, expected, found } in &self.forms {
            let _ = writeln!(out, "{name:width$}  {expected:>8.6}    {found:>8.6}");
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

/// The values in the order of their first occurrence.
fn unique<T: Ord + Clone>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    values.filter(|value| seen.insert(value.clone())).collect()
}

/// What came out for a verifier with a drafter, in a few characters.
fn in_short(cells: &[&CertificateCell]) -> String {
    let tv = cells.iter().filter_map(|c| c.max_tv).reduce(f64::max);
    let any = |verdict| cells.iter().any(|c| c.verdict == verdict);
    match tv {
        _ if cells.is_empty() => String::new(),
        _ if any(Verdict::Failed) => "FAILED".to_owned(),
        Some(tv) if any(Verdict::Measured) => format!("X {tv:.2}"),
        _ if cells.iter().all(|c| c.verdict == Verdict::Consistent) => "~".to_owned(),
        Some(tv) => format!("{tv:.0e}"),
        None => "X".to_owned(),
    }
}
