//! What the last full certificate says of every registered name, for `list`
//! and the page of methods.

use serde::{Deserialize, Serialize};

use super::certificate::{Certificate, CertificateCell, Verdict};

/// What a certificate says of a verifier, a drafter or a length policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Certified {
    /// `verifier`, `drafter` or `length`.
    pub kind: String,
    /// Its name in the registry.
    pub name: String,
    /// What came out of all its cells.
    pub verdict: Verdict,
    /// Cells in which it takes part; for drafters and length policies those
    /// whose verifier claims to be exact.
    pub cells: usize,
    /// Rounds walked and generations sampled in them.
    pub paths: usize,
    /// The largest total variation of an enumerated joint law.
    pub max_tv: Option<f64>,
}

/// The committed summary of the last full certificate.
const COMMITTED: &str = include_str!("../../docs/certified.csv");

/// What the committed certificate says; nothing of names that are newer.
pub fn certified() -> Vec<Certified> {
    csv::Reader::from_reader(COMMITTED.as_bytes()).deserialize().filter_map(Result::ok).collect()
}

impl Certified {
    /// The verdict in a few words.
    pub fn words(&self) -> String {
        let tv = self.max_tv.map_or_else(|| "-".to_owned(), |tv| format!("{tv:.0e}"));
        match self.verdict {
            Verdict::Exact => format!("exact: {} cells, largest TV {tv}", self.cells),
            Verdict::Consistent => format!("consistent: {} cells sampled", self.cells),
            Verdict::Measured => {
                let tv = self.max_tv.map_or_else(|| "-".to_owned(), |tv| format!("{tv:.2}"));
                format!("approximate: {} cells, TV up to {tv}", self.cells)
            }
            Verdict::Failed => "FAILED".to_owned(),
        }
    }

    fn of(kind: &str, name: &str, cells: &[&CertificateCell]) -> Self {
        let any = |verdict| cells.iter().any(|c| c.verdict == verdict);
        let verdict = [Verdict::Failed, Verdict::Measured, Verdict::Exact];
        Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            verdict: verdict.into_iter().find(|v| any(*v)).unwrap_or(Verdict::Consistent),
            cells: cells.len(),
            paths: cells.iter().map(|c| c.paths).sum(),
            max_tv: cells.iter().filter_map(|c| c.max_tv).reduce(f64::max),
        }
    }
}

impl Certificate {
    /// What is certified, by registered name, in the order of the cells.
    pub fn certified(&self) -> Vec<Certified> {
        let claimed = self.cells.iter().filter(|c| c.verdict != Verdict::Measured);
        let claimed = claimed.collect::<Vec<_>>();
        let mut all = group("verifier", &self.cells.iter().collect::<Vec<_>>(), |c| c.verifier);
        all.extend(group("drafter", &claimed, |c| c.drafter));
        all.extend(group("length", &claimed, |c| c.length));
        all
    }
}

fn group(
    kind: &str,
    cells: &[&CertificateCell],
    name: impl Fn(&CertificateCell) -> &str,
) -> Vec<Certified> {
    let mut names = Vec::new();
    for cell in cells {
        if !names.contains(&name(cell)) {
            names.push(name(cell));
        }
    }
    let of = |wanted: &str| {
        let own = cells.iter().copied().filter(|c| name(c) == wanted).collect::<Vec<_>>();
        Certified::of(kind, wanted, &own)
    };
    names.into_iter().map(of).collect()
}
