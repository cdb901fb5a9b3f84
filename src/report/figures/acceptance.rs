//! Draws alpha by draft length.

use super::data::Data;
use super::facets::{Frame, Line, page};
use crate::plot::{Page, Point};

pub(super) fn draw(data: &Data<'_>) -> Option<Page> {
    let lines = data.series.iter().map(|series| {
        let points = series.cells.iter().filter_map(|cell| {
            let row = data.row(&cell.id)?;
            let y_interval = row.alpha_lo.zip(row.alpha_hi);
            let x = cell.method.num_speculative_tokens as f64;
            Some(Point { x, y: row.alpha?, y_interval, ..Point::default() })
        });
        Line::new(series, points.collect(), Vec::new())
    });
    let frame = Frame {
        title: "Acceptance by draft length",
        x: "draft length K (tokens)",
        y: "alpha (probability)",
        times: false,
    };
    page(data, frame, lines.collect())
}
