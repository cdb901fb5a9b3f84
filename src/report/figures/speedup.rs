//! Speedup by draft length, measured and predicted.

use kuva::plot::annotations::ReferenceLine;

use super::sheet::{
    DASHES, DOTS, NEUTRAL, Panel, Point, Sheet, axes, axis_end, dashed, line, marked, stroked,
};
use super::{Data, SummaryRow};

pub(super) fn draw(data: &Data<'_>) -> Option<Sheet> {
    let methods = data.names(|s| &s.method);
    let end = data.longest() as f64 + 0.5;
    let top = data
        .summary
        .iter()
        .flat_map(|row| [row.speedup, row.speedup_hi, row.predicted_speedup])
        .flatten()
        .fold(1.0, f64::max);
    let top = axis_end(top);
    let mut any = false;
    let panels = data
        .names(|s| &s.sampling)
        .iter()
        .map(|sampling| {
            let mut plots = Vec::new();
            for (i, method) in methods.iter().enumerate() {
                let cells = data.find(method, sampling).map_or(&[][..], |s| &s.cells);
                let rows = cells.iter().filter_map(|cell| data.row(&cell.id)).collect::<Vec<_>>();
                let measured = rows.iter().filter_map(|row| measured(row)).collect::<Vec<_>>();
                let predicted = rows.iter().filter_map(|row| predicted(row)).collect::<Vec<_>>();
                any |= !measured.is_empty();
                plots.extend(line(&measured, i));
                plots.push(dashed(&predicted, i));
            }
            let x = (0.5, end, "draft length K (tokens)");
            let layout = axes(sampling, x, (0.0, top, "speedup over plain decoding (×)"))
                .with_reference_line(
                    ReferenceLine::horizontal(1.0)
                        .with_color(NEUTRAL)
                        .with_stroke_width(1.5)
                        .with_dasharray(DOTS),
                );
            Panel { plots, layout }
        })
        .collect();
    let mut legend = methods.iter().enumerate().map(|(i, m)| marked(m, i)).collect::<Vec<_>>();
    legend.push(stroked("measured", None));
    legend.push(stroked("predicted", Some(DASHES)));
    legend.push(stroked("break-even", Some(DOTS)));
    let title = "Speedup by draft length".to_owned();
    any.then_some(Sheet { title, columns: 3, panels, legend })
}

fn measured(row: &SummaryRow) -> Option<Point> {
    Some(Point {
        x: row.num_speculative_tokens? as f64,
        y: row.speedup?,
        interval: row.speedup_lo.zip(row.speedup_hi),
    })
}

fn predicted(row: &SummaryRow) -> Option<Point> {
    let x = row.num_speculative_tokens? as f64;
    Some(Point { x, y: row.predicted_speedup?, interval: None })
}
