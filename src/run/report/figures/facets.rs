//! Arranges the curves of methods and sampling settings in panels: one panel per sampling
//! setting with a curve per method. If that is too crowded, one panel per method with a
//! curve per sampling setting. If that is too crowded as well, only the foremost methods,
//! under the sampling settings that have the most of them.

use std::collections::BTreeSet;

use super::data::{CURVE, Data};
use crate::measure::plot::{
    Axis, Body, Curve, Even, Grid, HUES, LegendEntry, LegendSample, MOST_PANELS, NEUTRAL, Page,
    Panel, Point, Style, distinct, reach,
};
use crate::run::report::run::{CellView, Series};

/// With more curves per panel than this, predictions are left out: they would hide the
/// measured values.
const MOST_PREDICTED: usize = 3;

/// With more points per panel than this, methods hide each other.
const MOST_POINTS: usize = 40;

/// A curve that has not been assigned to a panel.
#[derive(Clone)]
pub(super) struct Line {
    method: String,
    sampling: String,
    points: Vec<Point>,
    predicted: Vec<(f64, f64)>,
}

impl Line {
    pub(super) fn new(series: &Series<'_>, points: Vec<Point>, predicted: Vec<(f64, f64)>) -> Self {
        let CellView { short: method, sampling, .. } = series.first();
        let (method, sampling) = (method.clone(), sampling.clone());
        Self { method, sampling, points, predicted }
    }
}

/// The title and axes that all panels share.
pub(super) struct Frame {
    pub(super) title: &'static str,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    /// Whether values are ratios to plain decoding, where 1 means no gain; otherwise they
    /// are probabilities.
    pub(super) ratios: bool,
}

impl Frame {
    /// Axes that contain all lines.
    fn axes<'l>(&self, lines: impl Iterator<Item = &'l Line> + Clone) -> (Axis, Axis) {
        let x = lines.clone().flat_map(|line| &line.points).map(|p| p.x);
        let of_point = |p: &Point| reach(p.y, p.y_interval);
        let predicted = lines.clone().flat_map(|line| &line.predicted).map(|(_, y)| *y);
        let y = lines.flat_map(|line| &line.points).flat_map(of_point).chain(predicted);
        let y = if self.ratios { Axis::around_one(self.y, y) } else { Axis::unit(self.y) };
        (Axis::of_settings(self.x, x), y)
    }
}

/// The page; `None` if no line has enough points for a curve.
pub(super) fn page(data: &Data<'_>, frame: Frame, mut lines: Vec<Line>) -> Option<Page> {
    lines.retain(|line| line.points.len() > 1);
    let Arranged { mut panels, by, notes } = arrange(data, &lines);
    if panels.is_empty() {
        return None;
    }
    if panels.iter().any(|(_, lines)| lines.len() > MOST_PREDICTED) {
        let lines = panels.iter_mut().flat_map(|(_, lines)| lines);
        for (line, _) in lines {
            line.predicted.clear();
        }
    }
    let lines = || panels.iter().flat_map(|(_, lines)| lines);
    let mut legend = by.legend(data, lines());
    if lines().any(|(line, _)| !line.predicted.is_empty()) {
        legend.push(LegendEntry::new("predicted", LegendSample::Predicted));
    }
    if frame.ratios {
        legend.push(even());
    }
    let (x, y) = frame.axes(lines().map(|(line, _)| line));
    let panels = panels.into_iter().map(|(title, lines)| {
        let curve = |(line, style): (Line, Style)| {
            let Line { points, predicted, .. } = line;
            Curve { style, points, predicted }
        };
        let even = frame.ratios.then_some(Even::Loss);
        let curves = lines.into_iter().map(curve).collect();
        Panel { title, x: x.clone(), y: y.clone(), even, curves }
    });
    let body = Body::Grid(Grid { panels: panels.collect() });
    Some(Page { title: frame.title.to_owned(), notes, legend, body })
}

/// The legend entry for the line at 1 and the shaded area below it.
pub(super) fn even() -> LegendEntry {
    LegendEntry::new("slower than plain decoding", LegendSample::Loss)
}

/// Panels as titles and lines.
type Panels = Vec<(String, Vec<(Line, Style)>)>;

/// Lines arranged in panels, and notes about what was left out.
struct Arranged {
    panels: Panels,
    by: By,
    notes: Vec<String>,
}

fn arrange(data: &Data<'_>, lines: &[Line]) -> Arranged {
    let panels = By::Sampling.split(data, lines);
    let points = |lines: &[(Line, Style)]| lines.iter().map(|(l, _)| l.points.len()).sum::<usize>();
    let crowded = panels.iter().any(|(_, lines)| points(lines) > MOST_POINTS);
    let mut notes = Vec::new();
    if crowded || !fit(&panels) {
        let others = By::Method.split(data, lines);
        if fit(&others) {
            return Arranged { panels: others, by: By::Method, notes };
        }
    }
    let panels = if fit(&panels) { panels } else { cut(data, panels, &mut notes) };
    Arranged { panels, by: By::Sampling, notes }
}

/// What a panel stands for; the lines within it differ in the other one.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Sampling,
    Method,
}

impl By {
    /// The panels that contain at least one curve.
    fn split(self, data: &Data<'_>, lines: &[Line]) -> Panels {
        let titles = if self == Self::Sampling { data.samplings() } else { data.methods() };
        let panels = titles.into_iter().map(|title| {
            let own = lines.iter().filter(|line| self.names(line).0 == title).cloned();
            let own = own.map(|line| {
                let style = match self {
                    Self::Sampling => data.looks.method(&line.method),
                    Self::Method => data.looks.sampling(&line.sampling),
                };
                (line, style)
            });
            (title.to_owned(), own.collect::<Vec<_>>())
        });
        let curved = |(_, lines): &(String, Vec<(Line, Style)>)| {
            lines.iter().any(|(line, _)| line.points.len() >= CURVE)
        };
        panels.filter(curved).collect()
    }

    /// The name of the panel of a line, and the name of the line within it.
    fn names(self, line: &Line) -> (&str, &str) {
        match self {
            Self::Sampling => (&line.sampling, &line.method),
            Self::Method => (&line.method, &line.sampling),
        }
    }

    /// The legend entries of the methods or sampling settings of the lines; empty if the run
    /// has only one.
    fn legend<'l>(
        self,
        data: &Data<'_>,
        lines: impl Iterator<Item = &'l (Line, Style)> + Clone,
    ) -> Vec<LegendEntry> {
        let names = if self == Self::Sampling { data.methods() } else { data.samplings() };
        let keys = names.iter().filter(|_| names.len() > 1).filter_map(|name| {
            let (_, style) = lines.clone().find(|(line, _)| self.names(line).1 == *name)?;
            Some(LegendEntry::new(*name, LegendSample::Curve(*style)))
        });
        keys.collect()
    }
}

/// Whether there is room for all panels and the lines within each have distinct styles.
fn fit(panels: &Panels) -> bool {
    let clear = |lines: &[(Line, Style)]| {
        let styles = lines.iter().map(|(_, style)| *style).collect::<Vec<_>>();
        styles.len() <= HUES && distinct(&styles)
    };
    panels.len() <= MOST_PANELS && panels.iter().all(|(_, lines)| clear(lines))
}

/// Keeps only the foremost methods, under the sampling settings that have the most of them.
fn cut(data: &Data<'_>, mut panels: Panels, notes: &mut Vec<String>) -> Panels {
    let methods = |panels: &Panels| {
        let lines = panels.iter().flat_map(|(_, lines)| lines);
        lines.map(|(line, _)| line.method.clone()).collect::<BTreeSet<_>>().len()
    };
    let all = methods(&panels);
    for (_, lines) in &mut panels {
        lines.retain(|(_, style)| *style != NEUTRAL);
    }
    panels.retain(|(_, lines)| !lines.is_empty());
    if methods(&panels) < all {
        notes.push(format!("{} of {all} methods: {}.", methods(&panels), data.foremost()));
    }
    let settings = panels.len();
    if settings > MOST_PANELS {
        // A panel with a single method compares nothing.
        if panels.iter().any(|(_, lines)| lines.len() > 1) {
            panels.retain(|(_, lines)| lines.len() > 1);
        }
        let mut order = (0..panels.len()).collect::<Vec<_>>();
        order.sort_by_key(|&i| std::cmp::Reverse(panels[i].1.len()));
        order.truncate(MOST_PANELS);
        let mut index = 0..;
        panels.retain(|_| index.next().is_some_and(|i| order.contains(&i)));
        notes.push(format!(
            "{} of {settings} sampling settings: those with the most methods.",
            panels.len()
        ));
    }
    panels
}
