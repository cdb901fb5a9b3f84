//! Draws the measured and predicted speedup by draft length.

use super::data::Data;
use super::facets::{Frame, Line, page};
use crate::plot::{Page, Point};

pub(super) fn draw(data: &Data<'_>) -> Option<Page> {
    let lines = data.series.iter().map(|series| {
        let rows = data.timed(series);
        let rows = rows.iter().map(|(cell, row)| (cell.method.num_speculative_tokens as f64, row));
        let points = rows.clone().filter_map(|(x, row)| {
            let y_interval = row.speedup_lo.zip(row.speedup_hi);
            Some(Point { x, y: row.speedup?, y_interval, ..Point::default() })
        });
        let predicted = rows.filter_map(|(x, row)| Some((x, row.predicted_speedup?)));
        Line::new(series, points.collect(), predicted.collect())
    });
    let frame = Frame {
        title: "Speedup by draft length",
        x: "draft length K (tokens)",
        y: "speedup over plain decoding (×)",
        times: true,
    };
    page(data, frame, lines.collect())
}
