//! `docs/metrics.md` documents every column of every file, once and in order, and
//! `docs/methods.md` matches the registries.

use std::process::Command;

use serde::de::DeserializeOwned;
use serde_json::Value;
use specdec::measure::bench::PassRow;
use specdec::measure::rows::columns;
use specdec::measure::rows::{
    BetweenRow, BlockRow, DivergenceRow, FailureRow, GenerationRow, MachineRow, PositionRow,
    RAW_FILES, RoundRow, SummaryRow, SurvivalRow, TextRow, ThinkingRow, TraceRow,
};
use specdec::run::report::headings;

use crate::cli_support::json;
use crate::report::written;
use crate::synthetic::simulated;

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

/// Catches: a field of the object that is not documented, or the reverse; another value than that of
/// the table; a guard against spreadsheets in JSON; invalid times that are not given.
#[test]
fn every_field_of_a_report_as_json_is_documented() {
    let mut rows = simulated();
    rows.plan.target.name = "=target".to_owned();
    rows.plan.clock = "virtual".to_owned();
    let folder = written(&rows);
    let printed = json(&["report", folder.path().to_str().unwrap(), "--json"]);
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let documented = table("specdec report --json").into_iter().map(|row| row.0);
    let (of_cells, own) = documented.partition::<Vec<_>, _>(|name| name.starts_with("cells[]."));
    assert_eq!(names(&printed), own);
    let of_cells = of_cells.iter().map(|name| name.replace("cells[].", ""));
    let of_cells = of_cells.chain(headings::<SummaryRow>()).collect::<Vec<_>>();
    let cells = printed["cells"].as_array().unwrap();
    let mut reader = csv::Reader::from_path(folder.path().join("summary.csv")).unwrap();
    let summary = reader.deserialize::<SummaryRow>().map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(cells.len(), summary.len());
    for (cell, row) in cells.iter().zip(&summary) {
        assert_eq!(names(cell), of_cells);
        assert_eq!(cell["cell"], *row.cell);
        assert_eq!(cell["target"], "=target");
        assert_eq!(cell["speedup_lo"].as_f64(), row.speedup_lo);
        let plain = row.drafter == "none";
        assert_eq!(cell["verdict"], if plain { Value::Null } else { "set".into() });
        assert_eq!(cell["best"], row.num_speculative_tokens == Some(4));
    }
    assert!(printed["invalid_times"][0].as_str().unwrap().contains("virtual clock"));
    assert_eq!((&printed["format"], &printed["prompts"]), (&1.into(), &12.into()));
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
