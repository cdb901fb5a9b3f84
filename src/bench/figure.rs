//! The costs of passes and the best speedups, drawn.

use anyhow::Result;
use kuva::plot::annotations::ReferenceLine;

use super::{Costs, Measured};
use crate::report::figures::sheet::{
    DOTS, Drawn, NEUTRAL, Panel, Point, Sheet, axes, axis_end, line, marked, stroked,
};

/// Acceptances for which the best speedup is drawn.
const ACCEPTANCES: std::ops::RangeInclusive<u32> = 30..=95;

/// Draws T(m) / T(1) by rows and, if there is a draft model, the best speedup by
/// acceptance.
///
/// # Errors
/// If the renderer fails.
pub(crate) fn draw(title: &str, measured: &Measured, costs: Option<&Costs>) -> Result<Drawn> {
    let mut panels = vec![passes(measured)];
    let mut legend = vec![marked("T(m) / T(1)", 0)];
    if let Some(costs) = costs {
        panels.push(speedups(costs));
        legend.push(marked("best speedup", 1));
        legend.push(stroked("break-even", Some(DOTS)));
    }
    Sheet { title: title.to_owned(), columns: panels.len(), panels, legend }.draw()
}

fn passes(measured: &Measured) -> Panel {
    let one = measured.passes[0].median();
    let points = (1..).zip(&measured.passes).map(|(rows, timing)| Point {
        x: f64::from(rows),
        y: timing.median() / one,
        interval: None,
    });
    let points = points.collect::<Vec<_>>();
    let top = axis_end(points.iter().map(|p| p.y).fold(1.0, f64::max));
    let x = (0.0, points.len() as f64 + 1.0, "rows m of a pass");
    Panel { plots: line(&points, 0), layout: axes("cost of a pass", x, (0.0, top, "T(m) / T(1)")) }
}

fn speedups(costs: &Costs) -> Panel {
    let points = ACCEPTANCES.step_by(5).map(|percent| Point {
        x: f64::from(percent) / 10.0,
        y: costs.best(f64::from(percent) / 100.0).speedup,
        interval: None,
    });
    let points = points.collect::<Vec<_>>();
    let top = axis_end(points.iter().map(|p| p.y).fold(1.0, f64::max));
    let x = (2.0, 10.0, "acceptance α (tenths)");
    let layout = axes("at the best K", x, (0.0, top, "speedup over plain decoding (×)"));
    let even = ReferenceLine::horizontal(1.0).with_color(NEUTRAL).with_stroke_width(1.5);
    Panel { plots: line(&points, 1), layout: layout.with_reference_line(even.with_dasharray(DOTS)) }
}
