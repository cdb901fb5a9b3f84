//! The result of a certification, as data.

use std::collections::BTreeSet;

use serde::Serialize;

use super::forms::ClosedForm;
use super::kind::CellKind;
use super::methods::with_settings;
use super::monte_carlo::Fit;
use super::refute::MutantReport;
use crate::method::decode::CertificateVerdict;
use crate::model::Vocabulary;

/// One method on one toy with one sampling setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CertificateCell {
    /// Verifier, drafter and length policy.
    pub method: String,
    /// The verifier.
    pub verifier: &'static str,
    /// Its settings that differ from the defaults.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub verifier_settings: String,
    /// The drafter.
    pub drafter: &'static str,
    /// Its settings that differ from the defaults.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub settings: String,
    /// The length policy.
    pub length: &'static str,
    /// Its settings that differ from the defaults.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub length_settings: String,
    /// The guarantee class: D, G, P or X.
    pub class: String,
    /// The toy pair.
    pub toy: String,
    /// Number of tokens of its prompt.
    pub prompt: usize,
    /// Whether the toy has an end token, so that a completion can end early.
    pub ends: bool,
    /// `intersection` if the draft model has its own vocabulary.
    #[serde(skip_serializing_if = "Vocabulary::is_same")]
    pub vocabulary: Vocabulary,
    /// The sampling setting.
    pub sampler: &'static str,
    /// Draft length.
    #[serde(rename = "K")]
    pub k: usize,
    /// The kind of p and q in the verifier's decisions.
    pub kind: CellKind,
    /// The share of decisions in which p and q are soft, different and overlapping.
    pub soft: f64,
    /// Whether drafts may be trees.
    #[serde(skip)]
    pub branches: bool,
    /// Whether the length policy ended a draft before K; none for cells in which it need not.
    #[serde(skip)]
    pub stopped: Option<bool>,
    /// Number of enumerated rounds or sampled generations.
    pub paths: usize,
    /// Total variation between the joint distribution and the target's; none if the cell was
    /// sampled.
    pub max_tv: Option<f64>,
    /// The smallest total variation that would have been refuted.
    pub min_detectable_tv: f64,
    /// The verdict.
    pub verdict: CertificateVerdict,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl CertificateCell {
    /// The verifier, with its settings if they are not the defaults.
    pub(super) fn decider(&self) -> String {
        with_settings(self.verifier, &self.verifier_settings)
    }

    /// The drafter, likewise.
    pub(super) fn proposer(&self) -> String {
        with_settings(self.drafter, &self.settings)
    }

    /// The length policy, likewise.
    fn policy(&self) -> String {
        with_settings(self.length, &self.length_settings)
    }
}

/// A goodness-of-fit test on small models with random weights.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RealFit {
    /// Verifier, drafter and length policy.
    pub method: String,
    /// The sampling setting.
    pub sampler: &'static str,
    /// Draft length.
    #[serde(rename = "K")]
    pub k: usize,
    /// Pearson's test on pairs of tokens or of token bins; none if the models cannot run.
    #[serde(flatten)]
    pub fit: Option<Fit>,
    /// The verdict.
    pub verdict: CertificateVerdict,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A goodness-of-fit test on a given pair with its own prompts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairFit {
    /// The target.
    pub target: String,
    /// The draft model.
    pub draft: String,
    /// Verifier, drafter and length policy.
    pub method: String,
    /// The sampling setting.
    pub sampler: &'static str,
    /// Draft length.
    #[serde(rename = "K")]
    pub k: usize,
    /// Number of prompts.
    pub prompts: usize,
    /// Number of tokens.
    pub tokens: usize,
    /// The mean total variation between p and q: the error of a method that accepts every draft.
    pub draft_tv: Option<f64>,
    /// Pearson's test on two consecutive tokens; none if the models cannot run.
    #[serde(flatten)]
    pub fit: Option<Fit>,
    /// The verdict.
    pub verdict: CertificateVerdict,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The results of all checks.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Certificate {
    /// Whether every cell of the first length policy was enumerated, instead of pairs of factors.
    pub full: bool,
    /// The methods.
    pub cells: Vec<CertificateCell>,
    /// Values with a closed form.
    pub forms: Vec<ClosedForm>,
    /// Goodness of fit of sampled completions of models with f32 logits.
    pub fits: Vec<RealFit>,
    /// Goodness of fit of sampled completions of the given pair.
    pub pairs: Vec<PairFit>,
    /// The known-wrong methods and the checks that refute them.
    pub mutants: Vec<MutantReport>,
    /// Production code in place of the mutants, which no check may refute.
    pub controls: Vec<MutantReport>,
}

impl Certificate {
    /// Whether no cell failed and no mutant survived.
    pub fn holds(&self) -> bool {
        self.failures().is_empty()
    }

    /// One sentence per failed cell and surviving mutant.
    pub fn failures(&self) -> Vec<String> {
        let cells =
            self.cells.iter().filter(|c| c.verdict == CertificateVerdict::Failed).map(|c| {
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
        let fits = self.fits.iter().filter_map(|fit| {
            let reason = fit.reason.as_ref()?;
            Some(format!("{} on random weights at {}: {reason}", fit.method, fit.sampler))
        });
        let pairs = self.pairs.iter().filter_map(|fit| {
            let reason = fit.reason.as_ref()?;
            Some(format!("{} on {} at {}: {reason}", fit.method, fit.target, fit.sampler))
        });
        let controls = self.controls.iter().filter(|c| !c.killed_by.is_empty()).map(|c| {
            format!("production code as {} is refuted by {}", c.name, c.killed_by.join(", "))
        });
        let idle = self.stops().into_iter().filter(|(_, stopped, _)| *stopped == 0);
        let idle = idle.map(|(policy, ..)| {
            format!("vacuous: the length policy {policy} never ended a draft before K")
        });
        cells
            .chain(forms)
            .chain(fits)
            .chain(pairs)
            .chain(mutants)
            .chain(controls)
            .chain(idle)
            .collect()
    }

    /// For every length policy: the number of cells in which it ended a draft before K, and the
    /// number of cells in which it should have.
    pub(super) fn stops(&self) -> Vec<(String, usize, usize)> {
        let judged = self.cells.iter().filter_map(|cell| Some((cell.policy(), cell.stopped?)));
        let judged = judged.collect::<Vec<_>>();
        let count = |policy: &str, least: bool| {
            judged.iter().filter(|(name, stopped)| name == policy && *stopped >= least).count()
        };
        let policies = unique(judged.iter().map(|(policy, _)| policy));
        policies.into_iter().map(|p| (p.clone(), count(p, true), count(p, false))).collect()
    }
}

/// The values in the order of their first occurrence.
pub(super) fn unique<T: Ord + Clone>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    values.filter(|value| seen.insert(value.clone())).collect()
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
            toy: "mixed".to_owned(),
            prompt: 3,
            ends: false,
            vocabulary: Vocabulary::Same,
            sampler: "T=1",
            k: 2,
            kind: CellKind::Soft,
            soft: 1.0,
            branches: false,
            stopped,
            paths: 1,
            max_tv: Some(0.0),
            min_detectable_tv: 1e-12,
            verdict: CertificateVerdict::Exact,
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
        let certificate = Certificate { cells: lengths.into(), ..Certificate::default() };
        let sentence = "vacuous: the length policy optimal_stopping never ended a draft before K";
        assert_eq!(certificate.failures(), [sentence]);
        assert!(certificate.table().contains("ucb                      1 of 2\n"));
    }

    #[test]
    fn a_closed_form_that_is_not_a_number_fails() {
        let form = ClosedForm { name: "a".to_owned(), expected: 0.0, found: f64::NAN };
        let certificate = Certificate { forms: vec![form], ..Certificate::default() };
        assert_eq!(certificate.failures(), ["a is NaN, not 0"]);
    }
}
