//! Survival of drafts by position.

use super::Data;
use super::sheet::{Panel, Point, Sheet, axes, columns, line, marked};

pub(super) fn draw(data: &Data<'_>) -> Option<Sheet> {
    let samplings = data.names(|s| &s.sampling);
    let end = data.longest() as f64 + 0.5;
    let mut any = false;
    let methods = data.names(|s| &s.method);
    let panels = methods
        .iter()
        .map(|method| {
            let mut plots = Vec::new();
            for (i, sampling) in samplings.iter().enumerate() {
                let points = points(data, method, sampling);
                any |= !points.is_empty();
                plots.extend(line(&points, i));
            }
            let x = (0.5, end, "position i in the draft (tokens)");
            Panel { plots, layout: axes(method, x, (0.0, 1.0, "survival S(i)")) }
        })
        .collect();
    let legend = samplings.iter().enumerate().map(|(i, s)| marked(s, i)).collect();
    let title = "Survival of drafted tokens by position".to_owned();
    any.then_some(Sheet { title, columns: columns(methods.len()), panels, legend })
}

fn points(data: &Data<'_>, method: &str, sampling: &str) -> Vec<Point> {
    let longest = data.find(method, sampling).and_then(|s| s.longest(data.results));
    data.survival
        .iter()
        .filter(|row| longest.is_some_and(|cell| cell.id == row.cell))
        .map(|row| Point {
            x: row.position as f64,
            y: row.survival,
            interval: Some((row.lo, row.hi)),
        })
        .collect()
}
