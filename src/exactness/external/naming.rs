//! Names the known bug that has the found distribution.

use super::cases::RoundCase;
use super::certificate::{ExternalBug, ExternalCertificate};
use super::own::OwnVerifier;
use super::round::ExternalVerifier;
use super::round_distribution::{completed, distance};
use super::suspects::SUSPECTS;
use super::walk::{CaseWalk, walk_case};
use crate::exactness::joint::JointDistribution;
use crate::exactness::mutants;

/// Distributions of enumerated verifiers that differ by less count as equal.
const SAME: f64 = 1e-9;

pub(super) struct KnownWrong {
    pub(super) name: &'static str,
    pub(super) imitates: &'static str,
    verifier: Box<dyn ExternalVerifier>,
}

/// All known-wrong verifiers of chains.
pub(super) fn known_wrong() -> Vec<KnownWrong> {
    let own = mutants::chain_verifiers().map(|(name, imitates, verifier)| {
        let verifier: Box<dyn ExternalVerifier> = Box::new(OwnVerifier(verifier));
        KnownWrong { name, imitates, verifier }
    });
    let suspects = SUSPECTS.iter().map(|suspect| {
        let verifier: Box<dyn ExternalVerifier> = Box::new(*suspect);
        KnownWrong { name: suspect.name, imitates: suspect.imitates, verifier }
    });
    own.chain(suspects).collect()
}

impl KnownWrong {
    /// Its distribution in a case; `None` if it cannot decide there.
    pub(super) fn distribution(&mut self, case: &RoundCase) -> Option<JointDistribution> {
        match walk_case(&mut *self.verifier, case) {
            CaseWalk::Enumerated(rounds, _) => Some(completed(case, &rounds)),
            CaseWalk::Opaque | CaseWalk::Fault(_) => None,
        }
    }

    pub(super) fn bug(&self, tv: f64, cases: [usize; 2]) -> ExternalBug {
        ExternalBug { name: self.name, imitates: self.imitates, tv, cases }
    }
}

/// The known bugs that a distribution may have.
#[derive(Debug, Default)]
pub(super) struct BugNames {
    /// Those that nothing excludes, best first.
    pub(super) alike: Vec<ExternalBug>,
    /// If there are none: the closest one in the first case.
    pub(super) closest: Option<ExternalBug>,
}

impl ExternalCertificate {
    /// Names the bug, if nothing excludes it and everything else is excluded.
    pub(super) fn name(&mut self, names: BugNames) {
        self.closest_bug = names.closest;
        match <[ExternalBug; 1]>::try_from(names.alike) {
            Ok([bug]) => self.likely_bug = Some(bug),
            Err(alike) => self.alike = alike,
        }
    }
}

/// The known bugs with the same distributions in most cases. If a token is impossible, programs
/// with the same bug may behave differently, so a bug is excluded only in cases in which all tokens
/// are possible. A name needs a case in which the bug has the found distribution and the target has
/// not: a difference that is too small for that fits bugs that change nothing.
pub(super) fn name_bug(cases: &[RoundCase], found: &[JointDistribution], bar: f64) -> BugNames {
    let same = bar.max(SAME);
    let mut names = BugNames::default();
    for mut wrong in known_wrong() {
        let (mut farthest, mut alike, mut shown) = (0.0_f64, 0, false);
        let mut excluded = false;
        for (number, (case, found)) in cases.iter().zip(found).enumerate() {
            let tv = wrong.distribution(case).map_or(f64::INFINITY, |dist| distance(&dist, found));
            if number == 0 && names.closest.as_ref().is_none_or(|closest| tv < closest.tv) {
                names.closest = Some(wrong.bug(tv, [0, cases.len()]));
            }
            alike += usize::from(tv <= same);
            shown |= tv <= same && distance(&case.expected, found) > same;
            excluded = case.kind.soft && tv > same;
            if excluded {
                break;
            }
            farthest = if case.kind.soft { farthest.max(tv) } else { farthest };
        }
        let most = names.alike.first().map_or(0, |bug| bug.cases[0]);
        if excluded || !shown || alike < most {
            continue;
        }
        if alike > most {
            names.alike.clear();
        }
        names.alike.push(wrong.bug(farthest, [alike, cases.len()]));
    }
    names.closest = names.closest.filter(|bug| names.alike.is_empty() && bug.tv.is_finite());
    names
}
