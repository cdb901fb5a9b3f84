//! Certifies an external verifier.

use super::cases::{RoundCase, round_cases, sampled_cases};
use super::certificate::{ExternalCase, ExternalCertificate, ExternalVerdict};
use super::naming::name_bug;
use super::options::ExternalOptions;
use super::round::ExternalVerifier;
use super::round_distribution::{completed, witness};
use super::sample::sample_cases;
use super::walk::{CaseWalk, walk_case};
use crate::error::Error;
use crate::exactness::joint::{Gap, JointDistribution, worse};

/// Enumerates a verifier in every case, or samples it if it requests uniforms.
///
/// # Errors
/// If the options are out of range. Faults and errors of the verifier are reported in the
/// certificate.
pub fn certify_external(
    verifier: &mut dyn ExternalVerifier,
    options: &ExternalOptions,
) -> Result<ExternalCertificate, Error> {
    let options = options.checked()?;
    let cases = round_cases(options.vocab, options.k)?;
    let mut certificate = begun(options);
    let mut dists = Vec::new();
    for case in &cases {
        match walk_case(verifier, case) {
            CaseWalk::Enumerated(rounds, paths) => {
                let dist = completed(case, &rounds);
                certificate.add(enumerated(case, &dist, paths));
                dists.push(dist);
            }
            CaseWalk::Opaque => {
                return Ok(sampled(verifier, &sampled_cases(cases), options));
            }
            CaseWalk::Fault(why) => {
                certificate.fault = Some(why);
                return Ok(certificate);
            }
        }
    }
    let bar = certificate.bar;
    if certificate.max_error <= bar && certificate.max_tv <= bar {
        certificate.verdict = ExternalVerdict::Exact;
        return Ok(certificate);
    }
    certificate.refute(&cases, &dists);
    (certificate.likely_bug, certificate.closest_bug) = name_bug(&cases, &dists, bar);
    Ok(certificate)
}

fn begun(options: &ExternalOptions) -> ExternalCertificate {
    ExternalCertificate {
        vocab: options.vocab,
        k: options.k,
        verdict: ExternalVerdict::Invalid,
        bar: options.precision.bar(options.k),
        rounds: 0,
        max_tv: 0.0,
        max_error: 0.0,
        cases: Vec::new(),
        worst: None,
        fault: None,
        likely_bug: None,
        closest_bug: None,
        sampling: None,
    }
}

fn enumerated(case: &RoundCase, dist: &JointDistribution, paths: u64) -> ExternalCase {
    let gap = Gap::between(dist, &case.expected);
    ExternalCase {
        name: case.name,
        about: case.about,
        rounds: paths,
        tv_joint: gap.tv_joint,
        tv_first_token: gap.tv_first_token,
        max_error: gap.max_error,
        noise: 0.0,
    }
}

fn sampled(
    verifier: &mut dyn ExternalVerifier,
    cases: &[RoundCase],
    options: &ExternalOptions,
) -> ExternalCertificate {
    let mut certificate = begun(options);
    match sample_cases(verifier, cases, options) {
        Err(why) => certificate.fault = Some(why),
        Ok(found) => {
            found.cases.into_iter().for_each(|case| certificate.add(case));
            certificate.verdict = ExternalVerdict::NotRefuted;
            if found.refuted {
                certificate.refute(cases, &found.found);
            }
            certificate.likely_bug = found.likely_bug;
            certificate.closest_bug = found.closest_bug;
            certificate.sampling = Some(found.sampling);
        }
    }
    certificate
}

impl ExternalCertificate {
    fn add(&mut self, case: ExternalCase) {
        self.rounds += case.rounds;
        self.max_tv = worse(self.max_tv, case.tv_joint);
        self.max_error = worse(self.max_error, case.max_error);
        self.cases.push(case);
    }

    /// Records that the distributions are not the target's, and where they differ.
    fn refute(&mut self, cases: &[RoundCase], dists: &[JointDistribution]) {
        self.verdict = ExternalVerdict::Wrong;
        let excess = |case: &ExternalCase| case.tv_joint - case.noise;
        let most = self.cases.iter().zip(cases.iter().zip(dists));
        let most = most.max_by(|a, b| excess(a.0).total_cmp(&excess(b.0)));
        self.worst = most.and_then(|(shown, (case, dist))| {
            // For frequencies, only differences above the noise.
            let bar = if shown.noise > 0.0 { 0.25 * shown.max_error } else { self.bar };
            witness(case, dist, bar.min(shown.max_error / 2.0))
        });
    }
}
