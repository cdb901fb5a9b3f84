//! Names the known bug that has the found distribution.

use super::cases::RoundCase;
use super::certificate::ExternalBug;
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

/// The known bug with the same distributions, or else the one with the closest distribution in the
/// first case. If a token is impossible, programs with the same bug may behave differently. So only
/// the cases in which all tokens are possible decide.
pub(super) fn name_bug(
    cases: &[RoundCase],
    found: &[JointDistribution],
    bar: f64,
) -> (Option<ExternalBug>, Option<ExternalBug>) {
    let same = bar.max(SAME);
    let (mut named, mut closest) = (None::<ExternalBug>, None::<ExternalBug>);
    for mut wrong in known_wrong() {
        let (mut farthest, mut alike, mut excluded) = (0.0_f64, 0, false);
        for (number, (case, found)) in cases.iter().zip(found).enumerate() {
            let tv = wrong.distribution(case).map_or(f64::INFINITY, |dist| distance(&dist, found));
            if number == 0 && closest.as_ref().is_none_or(|closest| tv < closest.tv) {
                closest = Some(wrong.bug(tv, [0, cases.len()]));
            }
            alike += usize::from(tv <= same);
            excluded = case.soft && tv > same;
            if excluded {
                break;
            }
            farthest = if case.soft { farthest.max(tv) } else { farthest };
        }
        if !excluded && named.as_ref().is_none_or(|named| alike > named.cases[0]) {
            named = Some(wrong.bug(farthest, [alike, cases.len()]));
        }
    }
    let closest = closest.filter(|bug| named.is_none() && bug.tv.is_finite());
    (named, closest)
}
