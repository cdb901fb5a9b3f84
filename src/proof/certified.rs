//! Summarises a certificate by registered name.

use super::certificate::{Certificate, CertificateCell, unique};
use super::kind::CellKind;
use crate::method::decode::{CertificateVerdict, Certified};

impl Certificate {
    /// The results by registered name, in the order of the cells.
    pub fn certified(&self) -> Vec<Certified> {
        let claimed = self.cells.iter().filter(|c| c.verdict != CertificateVerdict::Measured);
        let claimed = claimed.collect::<Vec<_>>();
        let mut all = group("verifier", &self.cells.iter().collect::<Vec<_>>(), |c| c.verifier);
        all.extend(group("drafter", &claimed, |c| c.drafter));
        all.extend(group("length", &claimed, |c| c.length));
        let translated = claimed.into_iter().filter(|c| !c.vocabulary.is_same());
        let translated = translated.collect::<Vec<_>>();
        all.extend(group("vocabulary", &translated, |c| c.vocabulary.name()));
        all
    }
}

fn group(
    kind: &str,
    cells: &[&CertificateCell],
    name: impl Fn(&CertificateCell) -> &str,
) -> Vec<Certified> {
    let of = |wanted: &str| {
        let own = cells.iter().copied().filter(|c| name(c) == wanted).collect::<Vec<_>>();
        row(kind, wanted, &own)
    };
    unique(cells.iter().map(|cell| name(cell))).into_iter().map(of).collect()
}

fn row(kind: &str, name: &str, cells: &[&CertificateCell]) -> Certified {
    let any = |verdict| cells.iter().any(|c| c.verdict == verdict);
    let verdict =
        [CertificateVerdict::Failed, CertificateVerdict::Measured, CertificateVerdict::Exact];
    let (walked, sampled) =
        cells.iter().partition::<Vec<&CertificateCell>, _>(|cell| cell.max_tv.is_some());
    let count = |kind| walked.iter().filter(|cell| cell.kind == kind).count();
    Certified {
        kind: kind.to_owned(),
        name: name.to_owned(),
        verdict: verdict.into_iter().find(|v| any(*v)).unwrap_or(CertificateVerdict::Consistent),
        soft: count(CellKind::Soft),
        certain_draft: count(CellKind::CertainDraft),
        walked: walked.len(),
        sampled: sampled.len(),
        paths: cells.iter().map(|c| c.paths).sum(),
        max_tv: walked.iter().filter_map(|c| c.max_tv).reduce(f64::max),
        sampled_tv: sampled.iter().map(|c| c.min_detectable_tv).reduce(f64::max),
    }
}
