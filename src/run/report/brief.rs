//! The summary of a run for the terminal: warnings first, then the best draft length of
//! every method and sampling setting, or the largest one where no times say which is best.

use std::collections::BTreeSet;

use super::loops::{LoopShares, any_looping, loop_free_cell};
use super::run::{Run, Series};
use super::tables::{number, with_interval};
use super::warnings;
use crate::core::registry::class_with_word;
use crate::io::shown;
use crate::measure::plot::broken;

/// How many warnings and rows are shown at most; `report.md` has all of them.
const WARNINGS: usize = 8;
const ROWS: usize = 30;

/// Spaces between columns.
const GAP: usize = 2;

/// The minimum width of a text column; it is wider where a word, such as the name of a method, is
/// longer.
const NARROW: usize = 13;

/// The short name of the K that stands for a method where no times say which is best.
const MAX_K: &str = "max K";

/// The number of columns.
const COLUMNS: usize = 8;

/// The column of the speedups without loops, which is empty where none is needed.
const WITHOUT_LOOPS: usize = 5;

/// The column of the guarantee class.
const CLASS: usize = 2;

/// Text columns, which may be wrapped.
const WORDS: [usize; 2] = [0, 1];

/// Columns of numbers, which are aligned to the right.
const NUMBERS: [usize; 4] = [3, 4, WITHOUT_LOOPS, 6];

/// The summary of a run: its warnings, and one row per series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brief {
    warnings: Vec<String>,
    head: [String; COLUMNS],
    rows: Vec<[String; COLUMNS]>,
}

impl Brief {
    pub(super) fn new(run: &Run) -> Self {
        let times = &run.times;
        let mut all = times.reasons.iter().map(|reason| reason.sentence()).collect::<Vec<_>>();
        let shares = LoopShares::of(run).filter(|loops| loops.alarming);
        all.extend(shares.map(|loops| loops.words()));
        all.extend(warnings::warnings(run));
        let loops = times.is_valid() && any_looping(run);
        let head = [
            "method",
            "sampling",
            "class",
            if times.is_valid() { times.chosen_k() } else { MAX_K },
            "speedup [95 %]",
            if loops { "without loops" } else { "" },
            "acceptance",
            "verdict",
        ];
        let row = |series: Series<'_>| {
            let cell = series.best()?;
            let row = &cell.row;
            let k = row.num_speculative_tokens.map_or_else(String::new, |k| k.to_string());
            Some([
                shown::line(&cell.name),
                cell.sampling.clone(),
                row.class.clone(),
                k,
                with_interval(row.speedup, row.speedup_lo, row.speedup_hi, 2).to_string(),
                if loops { loop_free_cell(row).to_string() } else { String::new() },
                number(row.acceptance_rate, 3).to_string(),
                cell.verdict.words().split(':').next().unwrap_or_default().to_owned(),
            ])
        };
        let warnings = all.iter().map(|warning| shown::line(warning)).collect();
        let rows = run.series().filter_map(row).collect();
        Self { warnings, head: head.map(str::to_owned), rows }
    }

    /// The text, wrapped at `columns` columns. Numbers and words are never broken, so rows of the
    /// table may be longer on a narrow terminal.
    pub fn text(&self, columns: usize) -> String {
        let mut lines = Vec::new();
        for warning in self.warnings.iter().take(WARNINGS) {
            let folded = fold(&format!("warning: {warning}"), columns.max(NARROW));
            lines.extend(folded);
        }
        let more = |all: usize, shown: usize| {
            (all > shown).then(|| format!("and {} more in report.md", all - shown))
        };
        lines.extend(more(self.warnings.len(), WARNINGS));
        let table = [&self.head].into_iter().chain(self.rows.iter().take(ROWS)).collect::<Vec<_>>();
        let widths = widths(&table, columns);
        for row in table {
            lines.extend(row_lines(row, widths));
        }
        lines.extend(more(self.rows.len(), ROWS));
        let classes = self.rows.iter().map(|row| class_with_word(&row[CLASS]));
        let classes = classes.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ");
        lines.extend(fold(&format!("class {classes}"), columns.max(NARROW)));
        lines.join("\n")
    }
}

/// The width of a text in columns.
fn length(text: &str) -> usize {
    text.chars().count()
}

/// Fits every column to its contents. If the table is then too wide, shrinks the widest
/// text column until it fits. A column without text has no width. A table that cannot fit keeps its
/// widths, since terminals get its rows in several lines.
fn widths(table: &[&[String; COLUMNS]], columns: usize) -> [usize; COLUMNS] {
    let whole: [usize; COLUMNS] = std::array::from_fn(|column| {
        table.iter().map(|row| length(&row[column])).max().unwrap_or(0)
    });
    let longest = |column: usize| {
        let words = table.iter().flat_map(|row| row[column].split(' '));
        words.map(length).max().unwrap_or(0).max(NARROW)
    };
    let mut widths = whole;
    let gaps = GAP * widths.iter().filter(|width| **width > 0).count().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > columns {
        let widest = WORDS.into_iter().max_by_key(|&column| widths[column]);
        let Some(column) = widest.filter(|&column| widths[column] > longest(column)) else {
            return whole;
        };
        widths[column] -= 1;
    }
    widths
}

/// A row as lines of text: several if a cell is wrapped.
fn row_lines(row: &[String; COLUMNS], widths: [usize; COLUMNS]) -> Vec<String> {
    let cells: [Vec<String>; COLUMNS] = std::array::from_fn(|i| match WORDS.contains(&i) {
        true => fold(&row[i], widths[i]),
        false => vec![row[i].clone()],
    });
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let line = |i: usize| {
        let shown = cells.iter().zip(widths).enumerate().filter(|(_, (_, width))| *width > 0);
        let parts = shown.map(|(column, (cell, width))| {
            let part = cell.get(i).map_or("", String::as_str);
            if NUMBERS.contains(&column) {
                format!("{part:>width$}")
            } else {
                format!("{part:<width$}")
            }
        });
        parts.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

/// The text wrapped at `columns` characters.
fn fold(text: &str, columns: usize) -> Vec<String> {
    broken(text, |line| length(line) <= columns)
}
