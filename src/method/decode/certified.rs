//! The results of the last full certificate by registered name, for `list`, reports and
//! `docs/methods.md`.

use serde::{Deserialize, Serialize};

#[cfg(feature = "harness")]
use crate::io::shown::count;

/// The verdict on one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CertificateVerdict {
    /// The enumerated joint distribution equals the target's.
    Exact,
    /// Sampled generations are consistent with the target's distribution.
    Consistent,
    /// The method does not claim to be exact; its total variation is measured.
    Measured,
    /// Refuted, vacuous, or not runnable.
    Failed,
}

impl CertificateVerdict {
    /// The verdict of a goodness-of-fit test, which failed if there is a reason.
    pub(crate) fn of_fit(reason: Option<&String>) -> Self {
        if reason.is_none() { Self::Consistent } else { Self::Failed }
    }
}

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
#[cfg(feature = "harness")]
const COMMITTED: &str = include_str!("../../../docs/certified.csv");

/// The results in the committed certificate, which lacks names registered since.
///
/// # Errors
/// If a row is malformed.
#[cfg(feature = "harness")]
pub fn certified() -> Result<Vec<Certified>, csv::Error> {
    read(COMMITTED)
}

#[cfg(feature = "harness")]
fn read(summary: &str) -> Result<Vec<Certified>, csv::Error> {
    csv::Reader::from_reader(summary.as_bytes()).deserialize().collect()
}

#[cfg(feature = "harness")]
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
}

#[cfg(all(test, feature = "harness"))]
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
