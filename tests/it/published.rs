//! Numbers in READMEs, compared with the committed runs that they come from.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use specdec::measure::rows::SummaryRow;
use specdec::run::report::{load, report};
use tempfile::TempDir;

use crate::report::summary;

const FIRST: &str = "results/01-draft-length/2026-11-22-amd-epyc-2c";

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(path: &str) -> String {
    fs::read_to_string(project(path)).unwrap()
}

/// A copy of a committed run, without its figures.
fn copy(run: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in fs::read_dir(project(run)).unwrap().map(Result::unwrap) {
        if file.path().is_file() {
            fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
        }
    }
    folder
}

/// The cells of a table's row, without their blanks.
fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// The rows of the first table after `heading`, without its head.
fn table<'t>(text: &'t str, heading: &str) -> Vec<Vec<&'t str>> {
    let after = text.split(heading).nth(1).unwrap_or_else(|| panic!("no {heading}"));
    let rows = after.lines().skip_while(|line| !line.starts_with('|'));
    rows.take_while(|line| line.starts_with('|')).skip(2).map(cells).collect()
}

/// Catches: README prints another table than the program does for the committed run.
#[test]
fn the_readme_has_the_table_of_the_committed_run() {
    let folder = copy(FIRST);
    let printed = report(folder.path()).unwrap().text(120);
    let from = printed.find("\nmethod ").unwrap() + 1;
    let readme = text("README.md");
    assert!(readme.contains(&printed[from..]), "{}", &printed[from..]);
    let loops = printed.lines().next().unwrap().trim_start_matches("warning: ");
    let share = loops.split(" at T = 0").next().unwrap().rsplit(' ').nth(1).unwrap();
    assert!(readme.contains(&format!("{share} % of the tokens")), "{loops}");
}

/// Catches: README leads with speedups that the real pair does not have, or that rest on loops.
#[test]
fn the_readme_leads_with_the_real_pair() {
    let real = summary(&load(&project("results/08-real-pair/2026-11-24-intel-xeon-2c")).unwrap());
    let readme = text("README.md");
    let lead = readme.split("![").next().unwrap();
    for temperature in [0.0, 1.0] {
        let own = |row: &&SummaryRow| {
            row.drafter == "model"
                && row.verifier == "rejection"
                && row.num_speculative_tokens == Some(2)
                && row.sampling.temperature == temperature
        };
        let row = real.iter().find(own).unwrap();
        assert_eq!(row.baseline_loop_share, Some(0.0));
        let (_, speedup) = shown(row, [row.speedup, row.speedup_lo, row.speedup_hi]).unwrap();
        let speedup = speedup.trim_end_matches(", K = 2");
        assert!(lead.contains(&format!("{speedup} times")), "T = {temperature}: {speedup}");
    }
    let table = readme.lines().find(|line| line.starts_with("model") && line.contains("T = 1 "));
    let embedded = lead.split("reaches ").nth(1).unwrap().split(" at T = 1").next().unwrap();
    assert!(table.unwrap().contains(embedded), "{embedded}");
}

/// A speedup with its interval, and K.
fn shown(row: &SummaryRow, [value, lo, hi]: [Option<f64>; 3]) -> Option<(f64, String)> {
    let (value, k) = (value?, row.num_speculative_tokens?);
    Some((value, format!("{value:.2} [{:.2}, {:.2}], K = {k}", lo?, hi?)))
}

/// Catches: a speedup of the table of 01 that is not that of its run, such as one with loops in a
/// row without.
#[test]
fn the_speedups_of_draft_lengths_are_those_of_the_runs() {
    let runs = ["", "-bf16", "-q8_0"].map(|dtype| format!("{FIRST}{dtype}"));
    let runs = runs.map(|run| summary(&load(&project(&run)).unwrap()));
    let best = |run: &[SummaryRow], drafter: &str, temperature: f64, loops: bool| {
        let own = run.iter().filter(|row| {
            row.drafter == drafter && row.sampling.temperature == temperature && !row.control
        });
        let speedups = own.filter_map(|row| match loops {
            true => shown(row, [row.speedup, row.speedup_lo, row.speedup_hi]),
            false => shown(
                row,
                [row.loop_free_speedup, row.loop_free_speedup_lo, row.loop_free_speedup_hi],
            ),
        });
        speedups.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap().1
    };
    let readme = text("experiments/01-draft-length/README.md");
    let rows = table(&readme, "at the best K:");
    let rows = rows.iter().filter(|row| !row[0].starts_with('*')).collect::<Vec<_>>();
    assert_eq!(rows.len(), 8);
    for row in rows {
        let (temperature, loops) = match row[1] {
            "0, without loops" => (0.0, false),
            "0, all" => (0.0, true),
            other => (other.parse().unwrap(), true),
        };
        let found = runs.iter().map(|run| best(run, row[0], temperature, loops));
        assert_eq!(found.collect::<Vec<_>>(), row[2..], "{} at T = {}", row[0], row[1]);
    }
}

/// Catches: a speedup of the table of 04 that is not that of its run.
#[test]
fn the_speedups_of_drafters_by_category_are_those_of_the_run() {
    let folder = copy("results/04-drafters/2026-11-22-amd-epyc-2c");
    report(folder.path()).unwrap();
    let found = fs::read_to_string(folder.path().join("report.md")).unwrap();
    let found = table(&found, "## By category of prompt");
    let speedups = found.iter().map(|row| {
        let speedups = row[4..].iter().map(|cell| cell.split(", ").nth(1).unwrap());
        ((row[0], row[1]), speedups.collect::<Vec<_>>())
    });
    let speedups = speedups.collect::<BTreeMap<_, _>>();
    let readme = text("experiments/04-drafters/README.md");
    let rows = table(&readme, "better over all prompts:");
    assert_eq!(rows.len(), 11);
    for row in rows {
        let method = row[0].split(" (").next().unwrap();
        let method = match method {
            "bigrams of the text so far" => "ngram_lm, ngram_order = 2",
            "trigrams" => "ngram_lm, ngram_order = 3",
            "tree 2,2,1" => "model_tree",
            other => other,
        };
        let of = |sampling| speedups[&(method, sampling)].clone();
        assert_eq!([of("T = 0"), of("T = 1")].concat(), row[1..], "{method}");
    }
}
