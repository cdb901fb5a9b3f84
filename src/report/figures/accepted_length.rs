//! How many drafted tokens rounds accept.

use kuva::plot::BarPlot;

use super::Data;
use super::sheet::{Panel, Sheet, axes, axis_end, colour, columns, filled};
use crate::experiment::statistics::rounds;

pub(super) fn draw(data: &Data<'_>) -> Option<Sheet> {
    let samplings = data.names(|s| &s.sampling);
    let methods = data.names(|s| &s.method);
    let shares =
        |method: &str| samplings.iter().map(|s| shares(data, method, s)).collect::<Vec<_>>();
    let all = methods.iter().map(|m| shares(m)).collect::<Vec<_>>();
    let top = all.iter().flatten().flatten().copied().fold(0.0, f64::max);
    if top == 0.0 {
        return None;
    }
    let panels = methods
        .iter()
        .zip(all)
        .map(|(method, shares)| {
            let lengths = shares.iter().map(Vec::len).max().unwrap_or(0);
            let labels = (0..lengths).map(|n| n.to_string()).collect::<Vec<_>>();
            let mut bars = BarPlot::new().with_width(0.85);
            for (n, label) in labels.iter().enumerate() {
                let group = shares.iter().enumerate();
                let group =
                    group.map(|(i, s)| (s.get(n).copied().unwrap_or(0.0), colour(i).to_owned()));
                bars = bars.with_group(label.as_str(), group);
            }
            let x = (0.5, lengths as f64 + 0.5, "accepted drafted tokens in a round");
            let layout =
                axes(method, x, (0.0, axis_end(top), "share of rounds")).with_x_categories(labels);
            Panel { plots: vec![bars.into()], layout }
        })
        .collect();
    let legend = samplings.iter().enumerate().map(|(i, s)| filled(s, i)).collect();
    let title = format!("Accepted length with K = {}", data.longest());
    Some(Sheet { title, columns: columns(methods.len()), panels, legend })
}

/// By accepted length from 0 to K: the share of rounds.
fn shares(data: &Data<'_>, method: &str, sampling: &str) -> Vec<f64> {
    let Some(cell) = data.find(method, sampling).and_then(|s| s.longest(data.results)) else {
        return Vec::new();
    };
    let mut counts = vec![0usize; cell.num_speculative_tokens + 1];
    for round in rounds(data.results.samples(&cell.id)) {
        let last = counts.len() - 1;
        counts[round.accepted.min(last)] += 1;
    }
    let rounds = counts.iter().sum::<usize>().max(1) as f64;
    counts.into_iter().map(|n| n as f64 / rounds).collect()
}
