//! Names the known bug that has the found distribution.

use super::cases::RoundCase;
use super::certificate::{ExternalBug, ExternalCertificate};
use super::own::OwnVerifier;
use super::round_distribution::{completed, distance};
use super::walk::{CaseWalk, walk_case};
use crate::bugs::{Bug, wrong_verifiers};
use crate::method::verify::Verifier;
use crate::proof::joint::JointDistribution;

/// Distributions of enumerated verifiers that differ by less count as equal.
const SAME: f64 = 1e-9;

/// The distribution of a verifier with a bug in a case; `None` if it cannot decide there.
pub(super) fn distribution_in(
    case: &RoundCase,
    verifier: &'static dyn Verifier,
) -> Option<JointDistribution> {
    match walk_case(&mut OwnVerifier(verifier), case) {
        CaseWalk::Enumerated(rounds, _) => Some(completed(case, &rounds)),
        CaseWalk::Opaque | CaseWalk::Fault(_) => None,
    }
}

impl ExternalBug {
    pub(super) fn of(bug: &Bug, tv: f64, cases: [usize; 2]) -> Self {
        Self { name: bug.name, imitates: bug.summary, tv, cases }
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
    for (bug, verifier) in wrong_verifiers() {
        let (mut farthest, mut alike, mut shown) = (0.0_f64, 0, false);
        let mut excluded = false;
        for (number, (case, found)) in cases.iter().zip(found).enumerate() {
            let tv = distribution_in(case, verifier);
            let tv = tv.map_or(f64::INFINITY, |dist| distance(&dist, found));
            if number == 0 && names.closest.as_ref().is_none_or(|closest| tv < closest.tv) {
                names.closest = Some(ExternalBug::of(bug, tv, [0, cases.len()]));
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
        names.alike.push(ExternalBug::of(bug, farthest, [alike, cases.len()]));
    }
    names.closest = names.closest.filter(|bug| names.alike.is_empty() && bug.tv.is_finite());
    names
}
