//! Figures with one curve per method: by draft length or by position in the draft.

use super::data::{Data, timed};
use super::facets::{Frame, Line, page};
use crate::measure::plot::{Page, Point};
use crate::run::report::run::CellView;

pub(super) fn acceptance(data: &Data<'_>) -> Option<Page> {
    let lines = data.run.series().map(|series| {
        let points = series.cells.iter().filter_map(|cell| {
            let row = &cell.row;
            let y_interval = row.alpha_lo.zip(row.alpha_hi);
            let x = cell.method.num_speculative_tokens as f64;
            let key = cell.id.clone();
            Some(Point { x, y: row.alpha?, y_interval, key, ..Point::default() })
        });
        Line::new(&series, points.collect(), Vec::new())
    });
    let frame = Frame {
        title: "alpha by draft length",
        x: "draft length K (tokens)",
        y: "alpha, mean Σ min(p, q)",
        ratios: false,
    };
    page(data, frame, lines.collect())
}

pub(super) fn speedup(data: &Data<'_>) -> Option<Page> {
    let lines = data.run.series().map(|series| {
        let cells = timed(&series);
        let k = |cell: &CellView| cell.method.num_speculative_tokens as f64;
        let rows = cells.iter().map(|cell| (k(cell), &cell.row));
        let points = rows.clone().filter_map(|(x, row)| {
            let y_interval = row.speedup_lo.zip(row.speedup_hi);
            let key = row.cell.clone();
            Some(Point { x, y: row.speedup?, y_interval, key, ..Point::default() })
        });
        let predicted = rows.filter_map(|(x, row)| Some((x, row.predicted_speedup?)));
        Line::new(&series, points.collect(), predicted.collect())
    });
    let frame = Frame {
        title: "Speedup by draft length",
        x: "draft length K (tokens)",
        y: "speedup over plain decoding (×)",
        ratios: true,
    };
    page(data, frame, lines.collect())
}

pub(super) fn survival(data: &Data<'_>) -> Option<Page> {
    let lines = data.run.series().map(|series| {
        let rows = series.longest().map_or(&[][..], |cell| &cell.survival);
        let points = rows.iter().map(|row| Point {
            x: row.position as f64,
            y: row.survival,
            // The whole range stands for a missing interval.
            y_interval: Some((row.lo, row.hi)).filter(|ends| *ends != (0.0, 1.0)),
            key: row.cell.clone(),
            ..Point::default()
        });
        Line::new(&series, points.collect(), Vec::new())
    });
    let frame = Frame {
        title: "Survival of drafted tokens by position",
        x: "position i in the draft (tokens)",
        y: "survival S(i) (probability)",
        ratios: false,
    };
    page(data, frame, lines.collect())
}
