//! The page that readers can open without running anything.

use std::fs;
use std::path::Path;

use specdec::run::report::report;

use super::{data, page};

const RUN: &str = "results/01-draft-length/2026-11-26-nvidia-h100";
const EXAMPLE: &str = "docs/example-report.html";

/// The most bytes that it may have: readers download it whole.
const MOST: u64 = 1_000_000;

/// Catches: the committed page is not what the program makes of the run, or has no distributions.
#[test]
fn the_example_is_the_page_of_its_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    for file in fs::read_dir(root.join(RUN)).unwrap().map(Result::unwrap) {
        if file.path().is_file() {
            fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
        }
    }
    report(folder.path()).unwrap();
    let (made, example) = (page(folder.path()), fs::read_to_string(root.join(EXAMPLE)).unwrap());
    assert!(made == example, "`.ci/same-reports --renew` makes {EXAMPLE} again");
    assert!(fs::metadata(root.join(EXAMPLE)).unwrap().len() <= MOST);
    assert!(data(&example)["generations"][0]["steps"].is_array());
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    assert!(readme.contains(&format!("({EXAMPLE})")), "README leads to it");
}
