//! Prints the certificate of an external verifier.

use super::certificate::{
    ExternalBug, ExternalCase, ExternalCertificate, ExternalVerdict, ExternalWitness,
};
use crate::proof::joint::worse;

impl ExternalCertificate {
    /// The cases as a table, then where the distribution is wrong and which bug is likely, one
    /// sentence each.
    pub fn table(&self) -> String {
        let what = if self.sampling.is_some() { "rounds" } else { "paths" };
        let mut text = String::new();
        if !self.cases.is_empty() {
            text += &format!(
                "{:<17}{:>3}{:>3}{what:>9}{:>11}{:>11}  p and q\n",
                "case", "V", "K", "TV", "first"
            );
        }
        let alike =
            |a: &ExternalCase, b: &ExternalCase| (a.name, a.vocab, a.k) == (b.name, b.vocab, b.k);
        for cases in self.cases.chunk_by(alike) {
            let largest =
                |of: fn(&ExternalCase) -> f64| number(cases.iter().map(of).fold(0.0, worse));
            let (joint, first) =
                (largest(|case| case.tv_joint), largest(|case| case.tv_first_token));
            let rounds = cases.iter().map(|case| case.rounds).sum::<u64>();
            let ExternalCase { name, about, vocab, k, .. } = cases[0];
            text +=
                &format!("{name:<17}{vocab:>3}{k:>3}{rounds:>9}{joint:>11}{first:>11}  {about}\n");
        }
        if let Some(sampling) = &self.sampling {
            let noise = self.cases.iter().map(|case| case.noise).fold(0.0, f64::max);
            text += &format!(
                "TV is that of frequencies, which is up to {} for an exact verifier\n",
                number(noise)
            );
            let pearson = sampling.statistic.map_or_else(
                || "not taken: sampling ended before".to_owned(),
                |x2| format!("X2 = {x2:.0} of {:.0}", sampling.critical),
            );
            text += &format!(
                "bets on known bugs: 10^{:.1}; Pearson's test: {pearson}; \
                 impossible sequences: {}\n",
                sampling.log10_wealth, sampling.impossible
            );
        }
        text += &self.worst.as_ref().map(ExternalWitness::text).unwrap_or_default();
        text += &self.bug();
        text
    }

    /// The verdict in one sentence.
    pub fn sentence(&self) -> String {
        let Self { rounds, bar, cases, .. } = self;
        let scope = self.scope();
        match (self.verdict, &self.sampling) {
            (ExternalVerdict::Invalid, _) => {
                format!("invalid: {}", self.fault.as_deref().unwrap_or("no case was run"))
            }
            (ExternalVerdict::Exact, _) => format!(
                "exact: the joint distribution of K + 1 tokens is the target's to {bar:.1e} in {} \
                 cases, {rounds} paths enumerated, {scope}",
                cases.len()
            ),
            (_, Some(sampling)) => {
                let (found, level) = match self.verdict {
                    ExternalVerdict::Wrong => {
                        ("wrong: the joint distribution is refuted", sampling.level)
                    }
                    _ => ("not refuted", sampling.level),
                };
                format!(
                    "{found} at level {level} by {rounds} sampled rounds, which would find a \
                     total variation of {} in nine of ten runs, {scope}",
                    number(sampling.min_detectable_tv)
                )
            }
            (..) => format!(
                "wrong: the joint distribution of K + 1 tokens is up to {} in total variation \
                 from the target's, {rounds} paths enumerated, {scope}{}",
                number(self.max_tv),
                self.rounding()
            ),
        }
    }

    /// What the verdict is about: acceptance, V and K.
    fn scope(&self) -> String {
        let mut shapes = self.cases.iter().map(|case| (case.vocab, case.k)).collect::<Vec<_>>();
        shapes.dedup();
        let shapes = shapes.iter().map(|(vocab, k)| format!("vocabulary {vocab}, K = {k}"));
        format!(
            "{:.1} % of drafted tokens accepted ({:.1} % by rejection sampling; {})",
            100.0 * self.acceptance,
            100.0 * self.rejection_acceptance,
            shapes.collect::<Vec<_>>().join("; ")
        )
    }

    /// A remark on a difference that single precision explains.
    fn rounding(&self) -> &'static str {
        let single = |case: &ExternalCase| {
            let bar = super::options::ExternalPrecision::F32.bar(case.k);
            case.tv_joint.max(case.max_error) <= bar
        };
        if self.cases.iter().all(single) {
            "; rounding of a verifier that computes in f32 explains it"
        } else {
            ""
        }
    }

    fn bug(&self) -> String {
        if let Some(ExternalBug { name, imitates, cases: [alike, all], .. }) = &self.likely_bug {
            return format!(
                "likely bug: {name}: {imitates} (same distribution in {alike} of {all} cases)\n"
            );
        }
        if !self.alike.is_empty() {
            let names = self.alike.iter().map(|bug| bug.name).collect::<Vec<_>>();
            return format!("likely bug: one of {}\n", names.join(", "));
        }
        self.closest_bug.as_ref().map_or_else(String::new, |bug| {
            let tv = number(bug.tv);
            format!("likely bug: unlike any known one; the closest is {}, at {tv}\n", bug.name)
        })
    }
}

impl ExternalWitness {
    fn text(&self) -> String {
        let rows = |rows: &[Vec<f64>]| rows.iter().map(|r| list(r)).collect::<Vec<_>>().join(" ");
        format!(
            "worst case: {}\n  draft    {:?}\n  p        {}\n  q        {}\n  after    {:?}\n  \
             expected {}\n  found    {}\n",
            self.case,
            self.round.draft,
            rows(&self.round.p),
            rows(&self.round.q),
            self.after,
            list(&self.expected),
            list(&self.found)
        )
    }
}

fn list(row: &[f64]) -> String {
    let numbers = row.iter().map(|&p| number(p)).collect::<Vec<_>>();
    format!("[{}]", numbers.join(", "))
}

/// Four decimals, or two significant digits for small numbers.
fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        small if small.abs() < 1e-3 => format!("{small:.1e}"),
        value => format!("{value:.4}"),
    }
}
