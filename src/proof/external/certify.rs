//! Certifies an external verifier.

use super::case_list::{round_cases, sampled_cases};
use super::cases::RoundCase;
use super::certificate::{ExternalCase, ExternalCertificate, ExternalVerdict};
use super::naming::name_bug;
use super::options::ExternalOptions;
use super::real_rows::RealRows;
use super::round::ExternalVerifier;
use super::round_distribution::{acceptance, completed};
use super::sample::sample_cases;
use super::walk::{CaseWalk, walk_case};
use crate::core::error::Error;

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
    let cases = round_cases(options.vocab, options.k, options.seed);
    Ok(certify_cases(verifier, options, cases))
}

/// The same on cases whose rows are those of models.
///
/// # Errors
/// If the options are out of range, or there is no row.
pub fn certify_rows(
    verifier: &mut dyn ExternalVerifier,
    options: &ExternalOptions,
    rows: &RealRows,
) -> Result<ExternalCertificate, Error> {
    let options = options.checked()?;
    if rows.is_empty() {
        return Err(Error::setting("there is no position with rows of models"));
    }
    Ok(certify_cases(verifier, options, rows.cases(options.vocab, options.k)))
}

fn certify_cases(
    verifier: &mut dyn ExternalVerifier,
    options: &ExternalOptions,
    cases: Vec<RoundCase>,
) -> ExternalCertificate {
    let begun = ExternalCertificate {
        vocab: options.vocab,
        k: options.k,
        bar: options.precision.bar(options.k),
        ..ExternalCertificate::default()
    };
    let (mut certificate, mut dists) = (begun.clone(), Vec::new());
    for case in &cases {
        match walk_case(verifier, case) {
            CaseWalk::Enumerated(rounds, paths) => {
                let dist = completed(case, &rounds);
                certificate.add(case, &dist, paths, acceptance(case, &rounds), 0.0);
                dists.push(dist);
            }
            CaseWalk::Opaque => {
                let (mut certificate, cases) = (begun, sampled_cases(cases));
                let sampled = sample_cases(verifier, &cases, options, &mut certificate);
                certificate.fault = sampled.err();
                return certificate;
            }
            CaseWalk::Fault(why) => {
                certificate.fault = Some(why);
                return certificate;
            }
        }
    }
    let within = |case: &ExternalCase| {
        let bar = options.precision.bar(case.k);
        case.tv_joint <= bar && case.max_error <= bar
    };
    if certificate.cases.iter().all(within) {
        certificate.verdict = ExternalVerdict::Exact;
        return certificate;
    }
    certificate.refute(&cases, &dists);
    certificate.name(name_bug(&cases, &dists, certificate.bar));
    certificate
}
