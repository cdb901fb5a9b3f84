//! Draws the survival of drafts by position.

use super::data::Data;
use super::facets::{Frame, Line, page};
use crate::plot::{Page, Point};

pub(super) fn draw(data: &Data<'_>) -> Option<Page> {
    let lines = data.series.iter().map(|series| {
        let points = data.positions(series).into_iter().map(|row| Point {
            x: row.position as f64,
            y: row.survival,
            // The whole range stands for a missing interval.
            y_interval: Some((row.lo, row.hi)).filter(|ends| *ends != (0.0, 1.0)),
            ..Point::default()
        });
        Line::new(series, points.collect(), Vec::new())
    });
    let frame = Frame {
        title: "Survival of drafted tokens by position",
        x: "position i in the draft (tokens)",
        y: "survival S(i) (probability)",
        times: false,
    };
    page(data, frame, lines.collect())
}
