//! Prints a certificate as tables.

use std::fmt::Write as _;

use super::certificate::{Certificate, CertificateCell, PairFit, RealFit, unique};
use super::forms::{ClosedForm, LEGEND};
use super::kind::CellKind;
use super::monte_carlo::Fit;
use super::refute::CHECKS;
use crate::method::decode::CertificateVerdict;

/// Selects the cells of a line of a table.
type Belongs<'a> = &'a dyn Fn(&CertificateCell) -> bool;

impl Certificate {
    /// The numbers of cells, the result of every verifier with every drafter, the values known on
    /// paper, the kill matrix, and the failures.
    pub fn table(&self) -> String {
        let mut out = self.cell_tables();
        self.write_forms(&mut out);
        self.write_kills(&mut out);
        self.write_failures(&mut out);
        out
    }

    /// The same for some methods alone, with a line on what does not depend on them.
    pub fn table_of_methods(&self) -> String {
        let mut out = self.cell_tables();
        let (forms, mutants) = (self.forms.len(), self.mutants.len());
        let _ = writeln!(
            out,
            "\nchecked, too, and listed by a certification of all methods: {forms} values known on \
             paper, {mutants} known-wrong methods"
        );
        self.write_failures(&mut out);
        out
    }

    fn cell_tables(&self) -> String {
        let mut out = String::new();
        self.write_sums(&mut out);
        self.write_walked(&mut out);
        self.write_methods(&mut out);
        self.write_stops(&mut out);
        self.write_fits(&mut out);
        self.write_pairs(&mut out);
        out
    }

    fn write_failures(&self, out: &mut String) {
        for failure in self.failures() {
            let _ = writeln!(out, "FAILED {failure}");
        }
    }

    /// The overall verdict in one line, with the number of cells behind it.
    pub fn verdict(&self) -> String {
        let failed = self.failures().len();
        if failed > 0 {
            return format!("verdict: FAILED, {failed} of the checks above");
        }
        let (soft, all) = (self.proofs(Some(CellKind::Soft)), self.proofs(None));
        format!(
            "verdict: holds; {} cells exact with {}, {} others{}; all {} known-wrong methods refuted",
            soft.len(),
            CellKind::Soft.words(),
            all.len() - soft.len(),
            largest(&all),
            self.mutants.len()
        )
    }

    /// The enumerated, exact cells of one kind, or of all kinds.
    fn proofs(&self, kind: Option<CellKind>) -> Vec<&CertificateCell> {
        let of = |c: &&CertificateCell| {
            c.verdict == CertificateVerdict::Exact && kind.is_none_or(|kind| c.kind == kind)
        };
        self.cells.iter().filter(of).collect()
    }

    /// The numbers of cells by verdict, the most informative first.
    fn write_sums(&self, out: &mut String) {
        for kind in CellKind::ALL {
            let cells = self.proofs(Some(kind));
            write_sum(out, &cells, &format!("exact, {}", kind.words()));
            if kind == CellKind::Soft && !cells.is_empty() {
                let _ = writeln!(out, "apart from these:");
            }
        }
        for (verdict, what) in [
            (CertificateVerdict::Consistent, "sampled and consistent"),
            (CertificateVerdict::Measured, "approximate and measured"),
            (CertificateVerdict::Failed, "FAILED"),
        ] {
            let of = |c: &&CertificateCell| c.verdict == verdict;
            let cells = self.cells.iter().filter(of).collect::<Vec<_>>();
            let soft = cells.iter().filter(|c| c.kind == CellKind::Soft).count();
            write_sum(out, &cells, &format!("{what}, {soft} of them soft"));
        }
    }

    /// The cells with soft distributions by K and toy.
    fn write_walked(&self, out: &mut String) {
        let soft = self.proofs(Some(CellKind::Soft));
        let Some(most) = soft.iter().map(|c| c.k).max() else { return };
        let _ = write!(out, "\n{:42}", "exact cells with soft distributions, by K");
        for k in 1..=most {
            let _ = write!(out, "{k:>7}");
        }
        let on_random = |c: &CertificateCell| c.toy.starts_with("random-");
        let rows: [(&str, Belongs<'_>); 6] = [
            ("chains on named toys", &|c| !c.branches && !on_random(c)),
            ("trees on named toys", &|c| c.branches && !on_random(c)),
            ("chains on random toys", &|c| !c.branches && on_random(c)),
            ("trees on random toys", &|c| c.branches && on_random(c)),
            ("of all these, with end tokens in drafts", &|c| c.ends),
            ("of all these, drafts in another vocabulary", &|c| !c.vocabulary.is_same()),
        ];
        for (name, of) in rows {
            let _ = write!(out, "\n{name:42}");
            for k in 1..=most {
                let cells = soft.iter().filter(|c| c.k == k && of(c)).count();
                let _ = write!(out, "{cells:>7}");
            }
        }
        let toys = |of: &dyn Fn(&CertificateCell) -> bool| {
            unique(soft.iter().filter(|c| of(c)).map(|c| c.toy.clone()))
        };
        let mut prompts = unique(soft.iter().map(|c| c.prompt));
        prompts.sort_unstable();
        let prompts = prompts.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let random = toys(&on_random).len();
        let _ = write!(out, "\nprompts of {prompts} tokens; {random} random toys");
        for (what, branches) in [("chains", false), ("trees", true)] {
            let named = toys(&|c| c.branches == branches && !on_random(c));
            if !named.is_empty() {
                let _ = write!(out, "; {what} on {}", named.join(", "));
            }
        }
        out.push('\n');
    }

    fn write_methods(&self, out: &mut String) {
        let verifiers = unique(self.cells.iter().map(CertificateCell::decider));
        let drafters = unique(self.cells.iter().map(CertificateCell::proposer));
        let width = drafters.iter().map(|d| d.len()).max().unwrap_or(0);
        let _ = write!(out, "\n{:width$}", "");
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
        let _ = writeln!(
            out,
            "\n\nThe largest total variation of an enumerated joint distribution, over samplers, toys, draft \
             lengths and length\npolicies; ~: sampled only, not distinguishable from the target's distribution; \
             X: approximate, as measured;\nblank: not supported."
        );
    }

    fn write_stops(&self, out: &mut String) {
        let stops = self.stops();
        if stops.is_empty() {
            return;
        }
        let _ = writeln!(
            out,
            "\nwalked cells of chains from undecided distributions, K >= 2, in which a draft ended before K"
        );
        for (policy, stopped, cells) in stops {
            let _ = writeln!(out, "{policy:20} {stopped:5} of {cells}");
        }
    }

    fn write_fits(&self, out: &mut String) {
        if self.fits.is_empty() {
            return;
        }
        let width = self.fits.iter().map(|fit| fit.method.len()).max().unwrap_or(0);
        let _ = writeln!(
            out,
            "\nthe first two tokens of seeded texts, logits in f32, against their joint distribution: Pearson's \
             test at level 1e-6;\nTV: of a distribution that would be refuted with probability 0.99\n\
             {:width$}  sampling   texts  cells     X2  at most     TV",
            "method"
        );
        for RealFit { method, sampler, fit, .. } in &self.fits {
            let _ = writeln!(out, "{method:width$}  {sampler:8}  {}", test(fit.as_ref()));
        }
    }

    fn write_pairs(&self, out: &mut String) {
        let Some(PairFit { target, draft, prompts, .. }) = self.pairs.first() else { return };
        let width = self.pairs.iter().map(|fit| fit.method.len()).max().unwrap_or(0);
        let _ = writeln!(
            out,
            "\ntwo tokens in a row of seeded texts after {prompts} prompts, by their places in the target's own \
             distributions:\nPearson's test at level 1e-6; TV: of a distribution of such places that would be \
             refuted with probability 0.99;\nTV(p, q): the mean at a token, by which a method is off that keeps \
             every draft\ntarget {target}\ndraft  {draft}\n\
             {:width$}  sampling   pairs  cells     X2  at most     TV  TV(p, q)",
            "method"
        );
        for PairFit { method, sampler, fit, draft_tv, .. } in &self.pairs {
            let tv = draft_tv.map_or_else(String::new, |tv| format!("{tv:.3}"));
            let _ = writeln!(out, "{method:width$}  {sampler:8}  {}  {tv:>8}", test(fit.as_ref()));
        }
    }

    fn write_forms(&self, out: &mut String) {
        let width = self.forms.iter().map(|form| form.name.len()).max().unwrap_or(0);
        let _ = writeln!(out, "\n{LEGEND}\n{:width$}  on paper  enumerated", "known on paper");
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
        let numbers = (1..=CHECKS.len()).map(|i| format!("{i:>3}")).collect::<String>();
        let _ = writeln!(out, "{:width$} {numbers}  TV first  TV joint", "mutant");
        for mutant in &self.mutants {
            let hit = |name| if mutant.killed_by.contains(&name) { "  x" } else { "  ." };
            let kills = CHECKS.iter().map(|(name, _)| hit(*name)).collect::<String>();
            let (first, joint) = (mutant.tv_first_token, mutant.tv_joint);
            let _ = writeln!(out, "{:width$} {kills}  {first:>8.1e}  {joint:>8.1e}", mutant.name);
        }
        let right = self.controls.iter().filter(|control| control.killed_by.is_empty()).count();
        let _ = writeln!(
            out,
            "production code in their place passes every check in {right} of {} cases",
            self.controls.len()
        );
    }
}

/// The numbers of a test.
fn test(fit: Option<&Fit>) -> String {
    let Some(Fit { runs, cells, statistic, critical, min_detectable_tv: tv, .. }) = fit else {
        return "not run".to_owned();
    };
    format!("{runs:>6}  {cells:>5}  {statistic:>5.0}    {critical:>5.0}  {tv:.3}")
}

/// Writes a line on these cells, if there are any.
fn write_sum(out: &mut String, cells: &[&CertificateCell], what: &str) {
    if cells.is_empty() {
        return;
    }
    let paths = cells.iter().map(|c| c.paths).sum::<usize>();
    let detectable = cells.iter().map(|c| c.min_detectable_tv).fold(0.0, f64::max);
    let (n, tv) = (cells.len(), largest(cells));
    let cells = if n == 1 { "cell" } else { "cells" };
    let _ = writeln!(
        out,
        "{n:6} {cells} {what}: {paths} paths{tv}; a TV of {detectable:.1e} would have been seen"
    );
}

/// The largest total variation of enumerated cells; empty without any.
fn largest(cells: &[&CertificateCell]) -> String {
    let tv = cells.iter().filter_map(|c| c.max_tv).reduce(f64::max);
    tv.map_or_else(String::new, |tv| format!(", largest TV {tv:.1e}"))
}

/// The result of a verifier with a drafter in a few characters.
fn in_short(cells: &[&CertificateCell]) -> String {
    let tv = cells.iter().filter_map(|c| c.max_tv).reduce(f64::max);
    let any = |verdict| cells.iter().any(|c| c.verdict == verdict);
    match tv {
        _ if cells.is_empty() => String::new(),
        _ if any(CertificateVerdict::Failed) => "FAILED".to_owned(),
        Some(tv) if any(CertificateVerdict::Measured) => format!("X {tv:.2}"),
        _ if cells.iter().all(|c| c.verdict == CertificateVerdict::Consistent) => "~".to_owned(),
        Some(tv) => format!("{tv:.0e}"),
        None => "X".to_owned(),
    }
}
