//! The result of a certification, as data and as a table for people.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::forms::ClosedForm;
use super::methods::with_settings;
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
    /// Its settings, where they are not the defaults.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub verifier_settings: String,
    /// The drafter.
    pub drafter: &'static str,
    /// Its settings, where they are not the defaults.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub settings: String,
    /// The length policy.
    pub length: &'static str,
    /// Its settings, where they are not the defaults.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub length_settings: String,
    /// What is guaranteed: D, G, P or X.
    pub class: String,
    /// The toy pair.
    pub toy: &'static str,
    /// The kind of sampling.
    pub sampler: &'static str,
    /// Draft length.
    #[serde(rename = "K")]
    pub k: usize,
    /// Whether the length policy ended a draft before K, where one may well do so.
    #[serde(skip)]
    pub stopped: Option<bool>,
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
    /// The verifier, with its settings if they are not the defaults.
    fn decider(&self) -> String {
        with_settings(self.verifier, &self.verifier_settings)
    }

    /// The drafter, likewise.
    fn proposer(&self) -> String {
        with_settings(self.drafter, &self.settings)
    }

    /// The length policy, likewise.
    fn policy(&self) -> String {
        with_settings(self.length, &self.length_settings)
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
        let idle = self.stops().into_iter().filter(|(_, stopped, _)| *stopped == 0);
        let idle = idle.map(|(policy, ..)| {
            format!("vacuous: the length policy {policy} never ended a draft before K")
        });
        cells.chain(forms).chain(mutants).chain(idle).collect()
    }

    /// Every length policy with the number of cells in which it ended a draft
    /// before K, of those in which it may well have.
    fn stops(&self) -> Vec<(String, usize, usize)> {
        let judged = self.cells.iter().filter_map(|cell| Some((cell.policy(), cell.stopped?)));
        let judged = judged.collect::<Vec<_>>();
        let count = |policy: &str, least: bool| {
            judged.iter().filter(|(name, stopped)| name == policy && *stopped >= least).count()
        };
        let policies = unique(judged.iter().map(|(policy, _)| policy));
        policies.into_iter().map(|p| (p.clone(), count(p, true), count(p, false))).collect()
    }

    /// What is known of every verifier with every drafter, the kill matrix, and
    /// the failures.
    pub fn table(&self) -> String {
        let mut out = String::new();
        self.write_methods(&mut out);
        self.write_stops(&mut out);
        self.write_forms(&mut out);
        self.write_kills(&mut out);
        for failure in self.failures() {
            let _ = writeln!(out, "FAILED {failure}");
        }
        out
    }

    fn write_methods(&self, out: &mut String) {
        let verifiers = unique(self.cells.iter().map(CertificateCell::decider));
        let drafters = unique(self.cells.iter().map(CertificateCell::proposer));
        let width = drafters.iter().map(|d| d.len()).max().unwrap_or(0);
        let _ = write!(out, "{:width$}", "");
        for verifier in &verifiers {
            let _ = write!(out, "  {verifier:>12}");
        }
        for drafter in &drafters {
            let _ = write!(out, "\n{drafter:width$}");
            for verifier in &verifiers {
                let of =
                    |c: &&CertificateCell| c.decider() == *verifier && c.proposer() == *drafter;
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
             lengths and length\npolicies; ~: sampled only, not distinguishable from the target's law; \
             X: approximate, as measured;\nblank: not supported.\n"
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

    fn write_stops(&self, out: &mut String) {
        let stops = self.stops();
        if stops.is_empty() {
            return;
        }
        let _ = writeln!(
            out,
            "\nwalked cells of chains from undecided laws, K >= 2, in which a draft ended before K"
        );
        for (policy, stopped, cells) in stops {
            let _ = writeln!(out, "{policy:20} {stopped:5} of {cells}");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(length: &'static str, stopped: Option<bool>) -> CertificateCell {
        CertificateCell {
            method: format!("rejection+model+{length}"),
            verifier: "rejection",
            verifier_settings: String::new(),
            drafter: "model",
            settings: String::new(),
            length,
            length_settings: String::new(),
            class: "D".to_owned(),
            toy: "mixed",
            sampler: "T=1",
            k: 2,
            stopped,
            paths: 1,
            max_tv: Some(0.0),
            min_detectable_tv: 1e-12,
            verdict: Verdict::Exact,
            reason: None,
        }
    }

    #[test]
    fn a_length_policy_that_ends_no_draft_anywhere_fails() {
        let lengths = [
            cell("fixed", None),
            cell("ucb", Some(false)),
            cell("ucb", Some(true)),
            cell("optimal_stopping", Some(false)),
        ];
        let (forms, mutants) = (Vec::new(), Vec::new());
        let certificate = Certificate { full: false, cells: lengths.into(), forms, mutants };
        let sentence = "vacuous: the length policy optimal_stopping never ended a draft before K";
        assert_eq!(certificate.failures(), [sentence]);
        assert!(certificate.table().contains("ucb                      1 of 2\n"));
    }

    #[test]
    fn a_closed_form_that_is_not_a_number_fails() {
        let form = ClosedForm { name: "a".to_owned(), expected: 0.0, found: f64::NAN };
        let (cells, mutants) = (Vec::new(), Vec::new());
        let certificate = Certificate { full: false, cells, forms: vec![form], mutants };
        assert_eq!(certificate.failures(), ["a is NaN, not 0"]);
    }
}
