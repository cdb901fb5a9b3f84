//! Greedy text against the greedy baseline's: how much of it differs, and
//! whether each first difference is a tie.

use super::load::Results;
use super::series::Series;
use super::tables::markdown;
use crate::experiment::records::DivergenceRow;

/// A table by cell and, if any text differs, one of the differences.
pub(super) fn section(results: &Results, series: &[Series<'_>]) -> String {
    let mut cells = Vec::new();
    let mut found = Vec::new();
    for series in series.iter().filter(|s| s.cells[0].sampling.is_greedy()) {
        for cell in &series.cells {
            let k = cell.num_speculative_tokens.to_string();
            let rows = results.divergences.iter().filter(|d| d.cell == cell.id).collect::<Vec<_>>();
            let ties = rows.iter().filter(|d| d.tie).count();
            cells.push(vec![
                series.method.clone(),
                cell.class.clone(),
                k.clone(),
                format!("{} of {}", rows.len(), results.samples(&cell.id).len()),
                ties.to_string(),
            ]);
            found.extend(rows.into_iter().map(|row| line(&series.method, &k, row)));
        }
    }
    if cells.is_empty() {
        return String::new();
    }
    let head = ["method", "class", "K:", "texts that differ:", "of these by a tie:"];
    let mut text = format!(
        "## Greedy text against plain decoding\n\nAt temperature 0 every cell should repeat the \
         baseline's tokens. A difference is excused as a tie only if the baseline's two largest \
         logits were closer there than rounding can tell.\n\n{}\n",
        markdown(&head, &cells)
    );
    if !found.is_empty() {
        let head =
            ["method", "K:", "prompt", "token:", "plain:", "here:", "top-2 gap:", "bound:", "tie"];
        text += &format!("{}\n", markdown(&head, &found));
    }
    text
}

fn line(method: &str, k: &str, row: &DivergenceRow) -> Vec<String> {
    let token = |token: Option<u32>| token.map_or_else(|| "–".to_owned(), |t| t.to_string());
    vec![
        method.to_owned(),
        k.to_owned(),
        row.prompt.clone(),
        row.position.to_string(),
        token(row.plain_token),
        token(row.token),
        format!("{:.2e}", row.top2_gap),
        format!("{:.2e}", row.bound),
        if row.tie { "yes" } else { "**NO**" }.to_owned(),
    ]
}
