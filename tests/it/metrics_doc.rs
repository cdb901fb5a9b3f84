//! `docs/metrics.md` documents every column of every file, once and in order, and
//! `docs/methods.md` matches the registries.

use std::process::Command;

use serde::de::DeserializeOwned;
use specdec::measure::bench::PassRow;
use specdec::measure::rows::columns;
use specdec::measure::rows::{
    BetweenRow, BlockRow, DivergenceRow, FailureRow, GenerationRow, MachineRow, PositionRow,
    RAW_FILES, RoundRow, SummaryRow, SurvivalRow, TextRow, ThinkingRow, TraceRow,
};
use specdec::run::report::headings;

const DOC: &str = include_str!("../../docs/metrics.md");

/// The rows of the table under the heading of a file, as `(column, unit, definition)`.
fn table(file: &str) -> Vec<(String, String, String)> {
    let heading = format!("### `{file}`");
    let section = DOC.split(&heading).nth(1).unwrap_or_else(|| panic!("no heading for {file}"));
    let section = section.split("\n#").next().unwrap_or_default();
    let lines = section.lines().filter(|line| line.starts_with("| `"));
    lines
        .map(|line| {
            let cells = line.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>();
            assert_eq!(cells.len(), 3, "{file}: {line}");
            (cells[0].trim_matches('`').to_owned(), cells[1].to_owned(), cells[2].to_owned())
        })
        .collect()
}

fn check<T: DeserializeOwned>(file: &str) {
    check_columns(file, columns::<T>());
}

fn check_columns<S: AsRef<str>>(file: &str, columns: &[S]) {
    let table = table(file);
    let documented = table.iter().map(|row| row.0.as_str());
    assert!(documented.eq(columns.iter().map(AsRef::as_ref)), "{file}: {table:?}");
    for (column, unit, definition) in &table {
        assert!(!unit.is_empty() && !definition.is_empty(), "{file}: {column}");
    }
}

#[test]
fn every_column_is_documented() {
    check::<RoundRow>("rounds.csv");
    check::<PositionRow>("positions.csv");
    check::<GenerationRow>("generations.csv");
    check::<TextRow>("generations.jsonl");
    check::<TraceRow>("traces.jsonl");
    check::<FailureRow>("failures.csv");
    check::<DivergenceRow>("divergences.csv");
    check::<BlockRow>("blocks.csv");
    check_columns("survival.csv", &headings::<SurvivalRow>());
    check_columns("summary.csv", &headings::<SummaryRow>());
    check_columns("machines.csv", &headings::<MachineRow>());
    check_columns("between_machines.csv", &headings::<BetweenRow>());
    check_columns("thinking.csv", &headings::<ThinkingRow>());
    check::<PassRow>("specdec bench --csv");
}

#[test]
fn every_file_is_documented_once() {
    for file in RAW_FILES.iter().chain(&["survival.csv", "summary.csv"]) {
        assert_eq!(DOC.matches(&format!("### `{file}`")).count(), 1, "{file}");
    }
}

#[test]
fn the_methods_page_is_up_to_date() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_specdec")).args(["list", "--markdown"]).output().unwrap();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/methods.md");
    assert_eq!(
        std::fs::read_to_string(page).unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        "run: cargo run --release -- list --markdown > docs/methods.md"
    );
}
