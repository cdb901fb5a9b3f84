//! What verifiers make of their drafts: against what any rule could reach, and
//! at what distance from the target's law.

use super::series::Series;
use super::tables::{markdown, number, with_interval};
use crate::experiment::records::SummaryRow;

/// Acceptance against its ceiling, where more than one verifier or a tree makes
/// that a question.
pub(super) fn ceilings(series: &[Series<'_>], summary: &[SummaryRow]) -> String {
    let head = [
        "method",
        "sampling",
        "class",
        "K:",
        "τ [95 %]:",
        "alpha:",
        "ceiling α*:",
        "share of ceiling:",
    ];
    let first = series.first().map(|s| &s.cells[0].verifier);
    if series.iter().all(|s| Some(&s.cells[0].verifier) == first) {
        return String::new();
    }
    let table = table(series, summary, |row| {
        Some(vec![
            with_interval(
                row.block_efficiency,
                row.block_efficiency_lo,
                row.block_efficiency_hi,
                3,
            ),
            number(row.alpha, 3),
            number(Some(row.ceiling?), 3),
            number(row.share_of_ceiling, 3),
        ])
    });
    if table.is_empty() {
        return String::new();
    }
    format!(
        "## Against the ceiling\n\nα* is the largest probability with which any rule could keep \
         one of a node's children. A share below 1 is what the rule leaves; rules that weigh whole \
         paths can exceed 1. Approximate rules are not bound by it.\n\n{}\n",
        markdown(&head, &table)
    )
}

/// The measured distance of approximate verifiers.
pub(super) fn distances(series: &[Series<'_>], summary: &[SummaryRow]) -> String {
    let head =
        ["method", "sampling", "class", "K:", "TV per token [95 %]:", "τ:", "speedup [95 %]:"];
    let table = table(series, summary, |row| {
        Some(vec![
            with_interval(Some(row.tv?), row.tv_lo, row.tv_hi, 4),
            number(row.block_efficiency, 2),
            with_interval(row.speedup, row.speedup_lo, row.speedup_hi, 2),
        ])
    });
    if table.is_empty() {
        return String::new();
    }
    format!(
        "## Distance from the target's law\n\nFor approximate verifiers: the mean total variation \
         between the law of a token, given the tokens before it, and the target's, computed from \
         both laws and not from draws. The joint law of N tokens is at most N times as far.\n\n{}\n",
        markdown(&head, &table)
    )
}

/// A line per cell for which `rest` has something to say.
fn table(
    series: &[Series<'_>],
    summary: &[SummaryRow],
    rest: impl Fn(&SummaryRow) -> Option<Vec<String>>,
) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for series in series {
        for cell in &series.cells {
            let row = summary.iter().find(|row| row.cell == cell.id);
            let Some(rest) = row.and_then(&rest) else { continue };
            let k = cell.num_speculative_tokens.to_string();
            let head = [series.method.clone(), series.sampling.clone(), cell.class.clone(), k];
            lines.push(head.into_iter().chain(rest).collect());
        }
    }
    lines
}
