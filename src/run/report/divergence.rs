//! Completions that must equal those of plain decoding, or of a search without drafts: how many
//! differ, and whether each first difference is a tie.

use std::collections::BTreeSet;

use super::document::{DocBlock, TableCell, Tone};
use super::run::{CellView, Run};
use super::tables::{columns, number};
use crate::measure::rows::DivergenceRow;
use crate::measure::statistics::Sample;
use crate::run::experiment::Cell;

/// The sections on greedy cells, on beam searches and on cells of class P, each with a table
/// of cells and, if any completion differs, a table of the differences.
pub(super) fn section(run: &Run) -> Vec<DocBlock> {
    let greedy = part(run, |cell| cell.beam.is_none() && cell.method.sampling.is_greedy());
    let beams = part(run, |cell| cell.beam.is_some());
    let paths = part(run, |cell| cell.class.starts_with('P') && !cell.is_determined());
    let mut sections = Vec::new();
    let mut add = |heading, words, tables: Vec<DocBlock>| {
        if !tables.is_empty() {
            sections.extend([DocBlock::Heading(heading), DocBlock::paragraph(words)]);
            sections.extend(tables);
        }
    };
    add(
        "Greedy tokens against plain decoding",
        "At temperature 0 every cell should repeat the baseline's tokens. A difference is excused \
         as a tie only where rounding may depend on the rows of a pass (class with `~`), and the \
         two tokens are those with the baseline's two largest logits, closer than rounding can \
         tell.",
        greedy,
    );
    add(
        "Beams against the search without drafts",
        "Drafts should change no completion of a beam search. On an engine whose rounding may \
         depend on the rows of a pass (class with `~`), differences are counted and not judged.",
        beams,
    );
    add(
        "Same seed, same tokens",
        "Cells of class P (seed-exact) should repeat the tokens of plain decoding with the same \
         verifier and seed, with any drafter and K.",
        paths,
    );
    sections
}

fn part(run: &Run, wanted: impl Fn(&Cell) -> bool) -> Vec<DocBlock> {
    let mut cells = Vec::new();
    let mut found = Vec::new();
    for cell in run.drafted().filter(|cell| wanted(cell)) {
        let compared = compared(run, cell);
        let differ = cell.samples.iter().filter(|s| s.first_divergence.is_some()).count();
        let ties = cell.divergences.iter().filter(|d| d.tie).count();
        // Differences in class P~, and of beams in class G~, are excused: they are counted
        // but have no rows.
        let differ = cell.divergences.len().max(differ);
        let shown = TableCell::shown_as(format!("{differ} of {compared}"), Some(differ as f64));
        cells.push(cell.line().into_iter().chain([shown, ties.into()]).collect());
        found.extend(cell.divergences.iter().map(|row| line(cell, row)));
    }
    if cells.is_empty() {
        return Vec::new();
    }
    let head = columns(&["completions that differ, of those compared:", "of these by a tie:"]);
    let mut tables = vec![DocBlock::table(&head, cells)];
    if !found.is_empty() {
        let head =
            ["method", "K:", "prompt", "token:", "plain:", "here:", "top-2 gap:", "bound:", "tie"];
        tables.push(DocBlock::table(&head, found));
    }
    tables
}

/// The number of completions for which there was another to compare with. Class P is compared
/// with plain decoding under the same verifier and seed; a failure of that decoding is
/// recorded for the cell. Other classes are compared with the baseline.
fn compared(run: &Run, cell: &CellView) -> usize {
    let samples = cell.samples.iter().map(key);
    if cell.class.starts_with('P') {
        let failed = cell.failures.iter().map(|f| (&*f.prompt, f.repeat)).collect::<BTreeSet<_>>();
        return samples.filter(|key| !failed.contains(key)).count();
    }
    let plain = run.baseline(cell).iter().map(key).collect::<BTreeSet<_>>();
    samples.filter(|key| plain.contains(key)).count()
}

fn key(sample: &Sample) -> (&str, u32) {
    (&sample.prompt, sample.repeat)
}

fn line(cell: &CellView, row: &DivergenceRow) -> Vec<TableCell> {
    let missing = || number(None, 0);
    let logits = |x: Option<f64>| {
        x.map_or_else(missing, |value| TableCell::shown_as(format!("{value:.2e}"), x))
    };
    let token = |token: Option<u32>| token.map_or_else(missing, |t| TableCell::from(t as usize));
    vec![
        cell.name.as_str().into(),
        cell.method.num_speculative_tokens.into(),
        row.prompt.as_str().into(),
        row.position.into(),
        token(row.plain_token),
        token(row.token),
        logits(row.top2_gap),
        logits(row.bound),
        if row.tie { "yes".into() } else { TableCell { tone: Tone::Bad, ..TableCell::from("NO") } },
    ]
}
