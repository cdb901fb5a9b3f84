//! Every field that a finished run recorded, compared with an independent replay.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Serialize;
use serde_json::{Map, Value};
use specdec::measure::rows::columns;
use specdec::measure::rows::{
    BlockRow, DivergenceRow, FailureRow, GenerationRow, PositionRow, RAW_FILES, RoundRow, TextRow,
    TraceRow,
};
use specdec::run::experiment::Plan;
use specdec::run::experiment::divergence;

use crate::experiment_support::rows;
use crate::rows_blocks::sealed;
use crate::rows_replay::{first_difference, replay};
use crate::rows_scenarios::SCENARIOS;
use crate::rows_support::Scenario;
use crate::rows_traces::in_order;

/// Everything that a run writes before its report.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    pub(crate) rounds: Vec<RoundRow>,
    pub(crate) positions: Vec<PositionRow>,
    pub(crate) generations: Vec<GenerationRow>,
    pub(crate) texts: Vec<TextRow>,
    pub(crate) traces: Vec<TraceRow>,
    pub(crate) failures: Vec<FailureRow>,
    pub(crate) divergences: Vec<DivergenceRow>,
    pub(crate) blocks: Vec<BlockRow>,
}

/// A row by its columns.
type Fields = Map<String, Value>;

/// The differences found, by `file: column`.
pub(crate) type Differences = BTreeMap<String, String>;

impl Rows {
    fn read(folder: &Path) -> Self {
        let texts = std::fs::read_to_string(folder.join("generations.jsonl")).unwrap();
        let traces = std::fs::read_to_string(folder.join("traces.jsonl")).unwrap();
        let traces = traces.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Self {
            rounds: rows(folder, "rounds.csv"),
            positions: rows(folder, "positions.csv"),
            generations: rows(folder, "generations.csv"),
            texts: texts.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
            traces: in_order(traces),
            failures: rows(folder, "failures.csv"),
            divergences: rows(folder, "divergences.csv"),
            blocks: rows(folder, "blocks.csv"),
        }
    }

    /// The rows of every file.
    fn files(&self) -> [(&'static str, Vec<Fields>); 8] {
        [
            ("rounds.csv", fields(&self.rounds)),
            ("positions.csv", fields(&self.positions)),
            ("generations.csv", fields(&self.generations)),
            ("generations.jsonl", fields(&self.texts)),
            ("traces.jsonl", fields(&self.traces)),
            ("failures.csv", fields(&self.failures)),
            ("divergences.csv", fields(&self.divergences)),
            ("blocks.csv", fields(&self.blocks)),
        ]
    }

    /// The columns in which some row is not as expected, with the first such row;
    /// the number of rows counts as a column.
    pub(crate) fn differences(&self, expected: &Self) -> Differences {
        let mut found = Differences::new();
        for ((file, rows), (_, expected)) in self.files().into_iter().zip(expected.files()) {
            found.extend(compare(file, &rows, &expected));
        }
        found
    }
}

/// The differences found in one file.
pub(crate) fn differing<T: Serialize>(file: &str, rows: &[T], expected: &[T]) -> Differences {
    compare(file, &fields(rows), &fields(expected))
}

fn compare(file: &str, rows: &[Fields], expected: &[Fields]) -> Differences {
    let mut found = Differences::new();
    let mut note = |column: &str, what: String| {
        found.entry(format!("{file}: {column}")).or_insert(what);
    };
    if rows.len() != expected.len() {
        note("number of rows", format!("{}, not {}", rows.len(), expected.len()));
    }
    for (row, expected) in rows.iter().zip(expected) {
        for (column, value) in row.iter().filter(|(c, v)| !same(c, v, &expected[*c])) {
            note(column, format!("{value}, not {}, in {row:?}", expected[column]));
        }
    }
    found
}

fn fields<T: Serialize>(rows: &[T]) -> Vec<Fields> {
    let fields = |row: &T| match serde_json::to_value(row).unwrap() {
        Value::Object(fields) => fields,
        other => panic!("{other} is no row"),
    };
    rows.iter().map(fields).collect()
}

/// Whether two values are equal; numbers, up to the rounding of the few hundred f64 sums
/// and products that make distributions and times of generations. Shares of a time are
/// of whole nanoseconds, each less than 1e-7 of any block.
fn same(column: &str, a: &Value, b: &Value) -> bool {
    let rounding = if column.ends_with("_share") { 1e-7 } else { 1e-12 };
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= rounding * a.abs().max(1.0),
        _ => a == b,
    }
}

/// A finished run: what it recorded, and what it should have recorded.
pub(crate) struct Finished {
    pub(crate) scenario: &'static Scenario,
    pub(crate) plan: Plan,
    pub(crate) folder: PathBuf,
    pub(crate) found: Rows,
    pub(crate) expected: Rows,
    _out: tempfile::TempDir,
}

/// All scenarios, each run once.
pub(crate) static FINISHED: LazyLock<Vec<Finished>> = LazyLock::new(|| {
    let finish = |scenario: &'static Scenario| {
        let out = tempfile::tempdir().unwrap();
        scenario.with(|setup| {
            let folder = scenario.finish(setup, out.path());
            let (found, mut expected) = (Rows::read(&folder), replay(scenario, setup));
            assert_eq!(found.blocks.len(), expected.blocks.len(), "{}", scenario.name);
            expected.blocks = sealed(&folder, setup.plan, expected.blocks);
            Finished { scenario, plan: setup.plan.clone(), folder, found, expected, _out: out }
        })
    };
    SCENARIOS.iter().map(finish).collect()
});

/// Catches: times with the prefill in `decode_us`, not charged, halved, in whole microseconds, or
/// of another phase. Counts before or after the cut of a completion. Values of the first child, of
/// another row, or of p in the place of q. Nodes and parents off by one. Random numbers or
/// comparisons of repeat 0 in every repeat; end tokens that are ignored; comparisons of the wrong
/// class; cells that never take turns; blocks disturbed by waiting alone. `rows_mutants.rs` forges
/// such rows, column by column.
#[test]
fn every_recorded_field_matches_the_replay() {
    for run in FINISHED.iter() {
        let differences = run.found.differences(&run.expected);
        assert!(differences.is_empty(), "{}: {differences:#?}", run.scenario.name);
    }
}

/// The columns of every file that the replay computes.
pub(crate) fn replayed_columns() -> BTreeMap<&'static str, Vec<&'static str>> {
    // What beam searches and thinking add is checked where they are.
    let elsewhere = ["beam", "thinking"];
    let drawn = columns::<TextRow>().iter().copied().filter(|c| !elsewhere.contains(c)).collect();
    BTreeMap::from([
        ("rounds.csv", columns::<RoundRow>().to_vec()),
        ("positions.csv", columns::<PositionRow>().to_vec()),
        ("generations.csv", columns::<GenerationRow>().to_vec()),
        ("generations.jsonl", drawn),
        ("traces.jsonl", columns::<TraceRow>().to_vec()),
        ("failures.csv", columns::<FailureRow>().to_vec()),
        ("divergences.csv", columns::<DivergenceRow>().to_vec()),
        ("blocks.csv", columns::<BlockRow>().to_vec()),
    ])
}

#[test]
fn the_replay_covers_every_column_of_every_file() {
    let replayed = replayed_columns();
    assert!(RAW_FILES.iter().eq(FINISHED[0].found.files().iter().map(|(file, _)| file)));
    for (file, columns) in &replayed {
        let written = FINISHED.iter().filter(|run| run.folder.join(file).exists());
        let mut seen = 0;
        for run in written {
            let text = std::fs::read_to_string(run.folder.join(file)).unwrap();
            let first = text.lines().next().unwrap();
            let header = match serde_json::from_str::<Fields>(first) {
                Ok(line) => line.keys().cloned().collect(),
                Err(_) => first.split(',').map(str::to_owned).collect::<Vec<_>>(),
            };
            assert_eq!(header, *columns, "{file}");
            let files = run.expected.files();
            let rows = &files.iter().find(|(name, _)| name == file).unwrap().1;
            assert!(rows.iter().all(|row| row.keys().eq(columns.iter())), "{file}");
            seen += rows.len();
        }
        assert!(seen > 0, "no run has a row in {file}");
    }
}

/// Catches: completions of different lengths are compared only up to the shorter end.
#[test]
fn a_text_that_ends_early_differs_where_it_ends() {
    let texts: [&[u32]; 4] = [&[1, 2, 3], &[1, 2], &[1, 3, 3], &[]];
    for (plain, tokens) in texts.iter().flat_map(|a| texts.map(|b| (a, b))) {
        assert_eq!(divergence::first(plain, tokens), first_difference(plain, tokens));
    }
    assert_eq!(divergence::first(&[1, 2, 3], &[1, 2]), Some(2));
    let ended = divergence::difference(&[1, 2, 3], &[1, 2], 2);
    assert_eq!((ended.plain_token, ended.token, ended.tie), (Some(3), None, false));
}
