//! Alpha by draft length and temperature.

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
            let layout = axes(method, (0.5, end, "draft length K (tokens)"), (0.0, 1.0, "alpha"));
            Panel { plots, layout }
        })
        .collect();
    let legend = samplings.iter().enumerate().map(|(i, s)| marked(s, i)).collect();
    let title = "Acceptance by draft length".to_owned();
    any.then_some(Sheet { title, columns: columns(methods.len()), panels, legend })
}

fn points(data: &Data<'_>, method: &str, sampling: &str) -> Vec<Point> {
    let cells = data.find(method, sampling).map_or(&[][..], |s| &s.cells);
    let point = |row: &super::SummaryRow| {
        Some(Point {
            x: row.num_speculative_tokens? as f64,
            y: row.alpha?,
            interval: row.alpha_lo.zip(row.alpha_hi),
        })
    };
    cells.iter().filter_map(|cell| point(data.row(&cell.id)?)).collect()
}
