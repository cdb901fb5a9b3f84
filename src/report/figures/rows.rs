//! A panel with a group per row and, in each, a value per method with its
//! interval along the row.

use kuva::plot::annotations::ReferenceLine;
use kuva::render::layout::TickFormat;

use super::sheet::{DOTS, NEUTRAL, Panel, Point, axes, step, whiskers};

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Value {
    /// From 0, downwards.
    pub(crate) row: usize,
    pub(crate) x: f64,
    pub(crate) interval: Option<(f64, f64)>,
}

/// The part of a row's height that its values are spread over.
const SPREAD: f64 = 0.8;

/// A panel over `rows`; every set of values has a colour of its own. A dotted
/// line marks 1, where two things are equally fast.
pub(crate) fn panel(title: &str, rows: &[String], label: &str, sets: &[Vec<Value>]) -> Panel {
    let ends = sets.iter().flatten().flat_map(|v| {
        let (lo, hi) = v.interval.unwrap_or((v.x, v.x));
        [lo, hi]
    });
    let (lo, hi) = ends.fold((1.0_f64, 1.0_f64), |(a, b), x| (a.min(x), b.max(x)));
    let tick = step((hi - lo).max(0.02));
    let x = ((lo / tick - 0.2).floor() * tick, (hi / tick + 0.2).ceil() * tick);
    let count = rows.len() as f64;
    let middle = (sets.len() as f64 - 1.0) / 2.0;
    let height = |set: usize, row: usize| {
        count - row as f64 - (set as f64 - middle) * SPREAD / sets.len() as f64
    };
    let points = |(i, values): (usize, &Vec<Value>)| {
        let point = |v: &Value| Point { x: v.x, y: height(i, v.row), interval: v.interval };
        whiskers(&values.iter().map(point).collect::<Vec<_>>(), i, false)
    };
    let plots = sets.iter().enumerate().flat_map(points).collect();
    let labels = rows.iter().rev().cloned().collect();
    let layout = axes(title, (x.0, x.1, label), (0.5, count + 0.5, ""))
        .with_x_tick_step(tick)
        .with_x_tick_format(TickFormat::Auto)
        .with_y_categories(labels)
        .with_reference_line(
            ReferenceLine::vertical(1.0)
                .with_color(NEUTRAL)
                .with_stroke_width(1.5)
                .with_dasharray(DOTS),
        );
    Panel { plots, layout }
}
