//! `docs/certified.csv`, which `specdec list` shows, agrees with the committed certificate.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde::Deserialize;
use specdec::bugs::mutants;
use specdec::method::decode::{CertificateVerdict, Certified, certified};

/// The fields of a cell of `certificate.json` that this test reads.
#[derive(Debug, Deserialize)]
struct Cell {
    verifier: String,
    drafter: String,
    length: String,
    vocabulary: Option<String>,
    kind: String,
    paths: usize,
    max_tv: Option<f64>,
    min_detectable_tv: f64,
    verdict: CertificateVerdict,
}

/// The summary of all cells with a name, without the verdict.
#[derive(Debug, Default, PartialEq)]
struct Sums {
    soft: usize,
    certain_draft: usize,
    walked: usize,
    sampled: usize,
    paths: usize,
    max_tv: Option<f64>,
    sampled_tv: Option<f64>,
}

impl Sums {
    fn add(&mut self, cell: &Cell) {
        self.paths += cell.paths;
        let Some(tv) = cell.max_tv else {
            self.sampled += 1;
            self.sampled_tv = largest(self.sampled_tv, cell.min_detectable_tv);
            return;
        };
        self.walked += 1;
        self.soft += usize::from(cell.kind == "soft");
        self.certain_draft += usize::from(cell.kind == "certain_draft");
        self.max_tv = largest(self.max_tv, tv);
    }

    fn of(row: &Certified) -> Self {
        let Certified { soft, certain_draft, walked, sampled, paths, max_tv, sampled_tv, .. } =
            *row;
        Self { soft, certain_draft, walked, sampled, paths, max_tv, sampled_tv }
    }
}

fn largest(before: Option<f64>, tv: f64) -> Option<f64> {
    before.into_iter().chain([tv]).reduce(f64::max)
}

/// The only committed certificate of all cells.
fn committed() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/certificate");
    let days = fs::read_dir(folder).unwrap().map(|day| day.unwrap().path());
    let [day] = days.collect::<Vec<_>>().try_into().expect("one certificate");
    day.join("certificate.json.gz")
}

/// The cells of a certificate, each of which is a line of its file.
fn cells(file: &Path) -> impl Iterator<Item = Cell> {
    let lines = BufReader::new(GzDecoder::new(File::open(file).unwrap())).lines();
    let lines = lines.map(Result::unwrap).skip_while(|line| line != "\"cells\":[");
    let cells = lines.skip(1).take_while(|line| line != "],");
    cells.map(|line| serde_json::from_str(line.trim_end_matches(',')).expect(&line))
}

#[test]
fn the_committed_summary_is_that_of_the_committed_certificate() {
    let mut sums = BTreeMap::<(&str, String), Sums>::new();
    for cell in cells(&committed()) {
        let mut names = vec![("verifier", cell.verifier.clone())];
        if cell.verdict != CertificateVerdict::Measured {
            names.push(("drafter", cell.drafter.clone()));
            names.push(("length", cell.length.clone()));
            names.extend(cell.vocabulary.clone().map(|name| ("vocabulary", name)));
        }
        names.into_iter().for_each(|name| sums.entry(name).or_default().add(&cell));
    }
    let summary = certified().unwrap();
    for row in &summary {
        let own = sums.get(&(&*row.kind, row.name.clone()));
        assert_eq!(own, Some(&Sums::of(row)), "{} {}", row.kind, row.name);
    }
    assert_eq!(summary.len(), sums.len());
}

/// A count as documents write it, such as 19,389.
fn with_commas(n: usize) -> String {
    let digits = n.to_string();
    let parts = digits.as_bytes().rchunks(3).rev();
    parts.map(|part| std::str::from_utf8(part).unwrap()).collect::<Vec<_>>().join(",")
}

/// Catches: a count in docs/exactness.md that the certificate does not have.
#[test]
fn the_page_on_exactness_has_the_counts_of_the_certificate() {
    let file = committed();
    let of = |verdict, is_soft: Option<bool>| {
        let is_kind = move |cell: &Cell| is_soft.is_none_or(|soft| (cell.kind == "soft") == soft);
        let all = cells(&file).filter(|cell| cell.verdict == verdict).filter(is_kind);
        all.fold((0, 0.0_f64), |(n, tv), cell| (n + 1, tv.max(cell.max_tv.unwrap_or(0.0))))
    };
    let (soft, soft_tv) = of(CertificateVerdict::Exact, Some(true));
    let (easier, easier_tv) = of(CertificateVerdict::Exact, Some(false));
    let (sampled, _) = of(CertificateVerdict::Consistent, None);
    let page = include_str!("../../docs/exactness.md");
    for row in [
        format!("| {} | {soft_tv:.1e} |", with_commas(soft)),
        format!("| {} | {easier_tv:.1e} |", with_commas(easier)),
        format!("| {} | |", with_commas(sampled)),
        format!("refute {} known-wrong methods", mutants().count()),
    ] {
        assert!(page.contains(&row), "{row}");
    }
}
