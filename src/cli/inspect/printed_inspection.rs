//! Prints an inspection as an aligned table.

use super::{DistColumn, Inspection, TokenRow};
use crate::cli::output;
use crate::io::shown::count;

/// The cells of one line; the label is aligned to the left, numbers to the right.
type TableLine = Vec<String>;

/// The inspection as text.
pub(super) fn render(inspection: &Inspection) -> String {
    let dists = inspection.stages.iter().chain(&inspection.q).collect::<Vec<_>>();
    let with_q = inspection.q.is_some();
    let mut lines = vec![header(&dists, with_q)];
    lines.extend(inspection.tokens.iter().map(token));
    let foot = |name: String, cell: &dyn Fn(&DistColumn) -> String| {
        let mut line = vec![String::new(), name, String::new()];
        line.extend(dists.iter().map(|dist| cell(dist)));
        line.extend(with_q.then(String::new));
        line
    };
    let others = inspection.vocab - inspection.tokens.len();
    let rule = lines.len();
    if others > 0 {
        lines.push(foot(count(others, "other"), &|dist| probability(dist.others)));
    }
    lines.push(foot("tokens kept".to_owned(), &|dist| dist.kept.to_string()));
    lines.push(foot("entropy (nats)".to_owned(), &|dist| format!("{:.4}", dist.entropy)));
    let mut text = format!(
        "next token of {} after {}: {} of {} tokens, by logit\n",
        inspection.target,
        count(inspection.prompt_tokens, "prompt token"),
        inspection.tokens.len(),
        inspection.vocab
    );
    for (role, held) in ["target", "draft"].iter().zip(&inspection.held) {
        let note = held.note.as_ref().map_or_else(String::new, |note| format!(": {note}"));
        text.push_str(&format!("{role} in {} (engine {}){note}\n", held.dtype, held.engine));
    }
    text.push('\n');
    text.push_str(&align(&lines, rule));
    if let (Some(overlap), Some(draft)) = (inspection.overlap, &inspection.draft) {
        text.push_str(&format!(
            "\ndraft {draft}: overlap = sum of min(p, q) = {overlap:.4}, the probability that \
             rejection sampling accepts a token drafted here\nthe acceptance that runs print is lower: \
             accepted / drafted tokens, and those after a rejection count as drafted, too\n"
        ));
    }
    text
}

fn header(dists: &[&DistColumn], with_q: bool) -> TableLine {
    let mut line = ["id", "token", "logit"].map(str::to_owned).to_vec();
    line.extend(dists.iter().map(|dist| match dist.value {
        Some(value) => format!("{} {value}", dist.name),
        None => dist.name.to_owned(),
    }));
    line.extend(with_q.then(|| "min(p,q)".to_owned()));
    line
}

fn token(row: &TokenRow) -> TableLine {
    // Quoted, so that spaces and newlines are visible.
    let mut line = vec![row.id.to_string(), format!("{:?}", row.label), logit(row.logit)];
    line.extend(row.probabilities.iter().chain(&row.q).chain(&row.min_pq).map(|&p| probability(p)));
    line
}

fn logit(x: f64) -> String {
    if x == f64::NEG_INFINITY { "-inf".to_owned() } else { format!("{x:.4}") }
}

fn probability(p: f64) -> String {
    match p {
        0.0 => "-".to_owned(),
        p if p < 5e-7 => format!("{p:.0e}"),
        p => format!("{p:.6}"),
    }
}

/// Aligns the cells, and draws rules below the header and above line `rule`.
fn align(lines: &[TableLine], rule: usize) -> String {
    let lines = output::aligned(lines, |column| column != 1);
    let width = lines.first().map_or(0, |header| header.chars().count());
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        if number == 1 || number == rule {
            text.push_str(&"-".repeat(width));
            text.push('\n');
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}
