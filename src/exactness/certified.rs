//! The results of the last full certificate by registered name, for `list` and `docs/methods.md`.

use serde::{Deserialize, Serialize};

use super::certificate::{Certificate, CertificateCell, CertificateVerdict, unique};
use super::kind::CellKind;
use crate::shown::count;

/// The results of a verifier, a drafter, a length policy or a vocabulary in a certificate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Certified {
    /// `verifier`, `drafter`, `length` or `vocabulary`.
    pub kind: String,
    /// Its name in the registry; `intersection` for a vocabulary.
    pub name: String,
    /// The verdict over all its cells.
    pub verdict: CertificateVerdict,
    /// Number of its enumerated cells in which p and q are soft, different and overlapping. For
    /// drafters and length policies, only cells whose verifier claims exactness count.
    pub soft: usize,
    /// Number of its enumerated cells in which the draft is one-hot and the target is not.
    pub certain_draft: usize,
    /// Number of its enumerated cells.
    pub walked: usize,
    /// Number of its sampled cells.
    pub sampled: usize,
    /// Number of rounds enumerated and generations sampled in its cells.
    pub paths: usize,
    /// The largest total variation of an enumerated joint distribution.
    pub max_tv: Option<f64>,
    /// The smallest total variation that every sampled cell would have detected.
    pub sampled_tv: Option<f64>,
}

/// The committed summary of the last full certificate.
const COMMITTED: &str = include_str!("../../docs/certified.csv");

/// The results in the committed certificate, which lacks names registered since.
///
/// # Errors
/// If a row is malformed.
pub fn certified() -> Result<Vec<Certified>, csv::Error> {
    read(COMMITTED)
}

fn read(summary: &str) -> Result<Vec<Certified>, csv::Error> {
    csv::Reader::from_reader(summary.as_bytes()).deserialize().collect()
}

impl Certified {
    /// A short description of the verdict.
    pub fn words(&self) -> String {
        match self.verdict {
            CertificateVerdict::Exact => {
                let tv = self.max_tv.map_or_else(|| "-".to_owned(), |tv| format!("{tv:.0e}"));
                let sampled = self.sampled_words().map(|words| format!("; {words}"));
                let sampled = sampled.unwrap_or_default();
                format!("exact: {}, largest TV {tv}{sampled}", self.walked_words())
            }
            CertificateVerdict::Consistent => {
                format!("consistent: {}", self.sampled_words().unwrap_or_default())
            }
            CertificateVerdict::Measured => {
                let tv = self.max_tv.map_or_else(|| "-".to_owned(), |tv| format!("{tv:.2}"));
                format!("approximate: {} walked, TV up to {tv}", count(self.walked, "cell"))
            }
            CertificateVerdict::Failed => "FAILED".to_owned(),
        }
    }

    /// The numbers of enumerated cells, the most informative kind first.
    fn walked_words(&self) -> String {
        let Self { soft, certain_draft, walked, .. } = *self;
        let part = |n, with| {
            format!("{} walked with {with}, {}", count(n, "cell"), count(walked - n, "other"))
        };
        match (soft, certain_draft) {
            (0, 0) => format!("{} walked", count(walked, "cell")),
            (0, certain) => part(certain, "certain drafts"),
            (soft, _) => part(soft, "soft distributions"),
        }
    }

    /// The distance from the target's distribution that sampled cells exclude; none without sampled
    /// cells.
    fn sampled_words(&self) -> Option<String> {
        // Rounded upwards: a bound.
        let percent = (self.sampled_tv? * 100.0).ceil();
        Some(format!("{} sampled, TV < {:.2}", self.sampled, percent / 100.0))
    }

    fn of(kind: &str, name: &str, cells: &[&CertificateCell]) -> Self {
        let any = |verdict| cells.iter().any(|c| c.verdict == verdict);
        let verdict =
            [CertificateVerdict::Failed, CertificateVerdict::Measured, CertificateVerdict::Exact];
        let (walked, sampled) =
            cells.iter().partition::<Vec<&CertificateCell>, _>(|cell| cell.max_tv.is_some());
        let count = |kind| walked.iter().filter(|cell| cell.kind == kind).count();
        Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            verdict: verdict
                .into_iter()
                .find(|v| any(*v))
                .unwrap_or(CertificateVerdict::Consistent),
            soft: count(CellKind::Soft),
            certain_draft: count(CellKind::CertainDraft),
            walked: walked.len(),
            sampled: sampled.len(),
            paths: cells.iter().map(|c| c.paths).sum(),
            max_tv: walked.iter().filter_map(|c| c.max_tv).reduce(f64::max),
            sampled_tv: sampled.iter().map(|c| c.min_detectable_tv).reduce(f64::max),
        }
    }
}

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
        Certified::of(kind, wanted, &own)
    };
    unique(cells.iter().map(|cell| name(cell))).into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "kind,name,verdict,soft,certain_draft,walked,sampled,paths,max_tv,sampled_tv\n";

    fn words(row: &str) -> String {
        read(&format!("{HEAD}{row}\n")).unwrap()[0].words()
    }

    #[test]
    fn walked_and_sampled_cells_are_counted_separately() {
        let mixed = words("verifier,gumbel,exact,816,9,2816,968,49273942,2.42e-16,0.0211");
        let expected = "exact: 816 cells walked with soft distributions, 2000 others, largest TV 2e-16; \
                        968 sampled, TV < 0.03";
        assert_eq!(mixed, expected);
        let walked = words("drafter,a,exact,0,0,5,0,7,0.0,");
        assert_eq!(walked, "exact: 5 cells walked, largest TV 0e0");
        let certain = words("drafter,a,exact,0,4,5,0,7,0.0,");
        assert_eq!(certain, "exact: 4 cells walked with certain drafts, 1 other, largest TV 0e0");
        let sampled = words("drafter,b,consistent,0,0,0,12,120000,,0.05");
        assert_eq!(sampled, "consistent: 12 sampled, TV < 0.05");
        let measured = words("verifier,c,measured,3,0,8,2,7,0.5,0.05");
        assert_eq!(measured, "approximate: 8 cells walked, TV up to 0.50");
    }
}
