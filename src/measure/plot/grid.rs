//! Small multiples: panels of curves that share axes where possible.

use super::MOST_PANELS;
use super::axis::Axis;
use super::canvas::{Anchor, BODY, Canvas, FAINT, HEAD, INK, MARGIN, RADIUS, RULE};
use super::labels::Labels;
use super::legend::{self, LegendEntry, LegendSample};
use super::style::{Colour, LOSS, Style};
use super::text::{width, wrap};
use super::tips::{TipSpot, measured, predicted};

/// Panels in reading order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grid {
    pub(crate) panels: Vec<Panel>,
}

/// Curves over the same axes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) even: Option<Even>,
    pub(crate) curves: Vec<Curve>,
}

/// The reference line at 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Even {
    /// Neither side is a loss.
    Line,
    /// Values below it are losses.
    Loss,
}

impl Even {
    /// The value and whether one side of it is a loss; `None` if it is not on the axis.
    pub(super) fn on(self, axis: &Axis) -> Option<(f64, bool)> {
        axis.holds(1.0).then_some((1.0, self == Self::Loss))
    }
}

/// Values that belong together, in order of increasing x.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    pub(crate) style: Style,
    pub(crate) points: Vec<Point>,
    /// Predictions as (x, y).
    pub(crate) predicted: Vec<(f64, f64)>,
}

/// A value with its intervals, if they are known.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) x_interval: Option<(f64, f64)>,
    pub(crate) y_interval: Option<(f64, f64)>,
    pub(crate) label: String,
    /// What the value belongs to: a page can hide it with everything else that does.
    pub(crate) key: String,
}

/// Pixels between panels.
const GAP: f64 = 26.0;
const HEAD_LINE: f64 = 15.0;
/// With more curves than this, bands would hide each other and intervals are drawn as bars.
const MOST_BANDS: usize = 3;

/// The minimum width of a panel with its gap, where a page is narrow.
const NARROWEST: f64 = 150.0;

/// The number of columns of a grid of `panels` on a canvas of some width, and the height of
/// a panel in pixels.
fn shape(panels: usize, width: f64) -> (usize, f64) {
    let (columns, height) = match panels {
        0 | 1 => (1, 260.0),
        2 | 4 => (2, 220.0),
        3 | 5 | 6 | 9 => (3, 180.0),
        _ => (4, 140.0),
    };
    let most = ((width / NARROWEST) as usize).max(1);
    if columns <= most { (columns, height) } else { (most, 160.0) }
}

impl Grid {
    /// Draws all panels from `top` and returns where they end, in pixels.
    pub(super) fn draw(&self, canvas: &mut Canvas, top: f64, legend: &[LegendEntry]) -> f64 {
        let panels = &self.panels[..self.panels.len().min(MOST_PANELS)];
        let Some(first) = panels.first() else { return top };
        let wide = canvas.width;
        let (columns, height) = shape(panels.len(), wide);
        let same_x = panels.iter().all(|p| p.x == first.x);
        let same_y = panels.iter().all(|p| p.y == first.y);
        let ticks = panels.iter().flat_map(|p| p.y.ticks());
        let gutter = 7.0 + ticks.map(|(_, label)| width(&label, BODY)).fold(0.0, f64::max);
        // A shared y axis has its ticks once, at the left of a row of panels.
        let (once, each) = if same_y { (gutter, 0.0) } else { (0.0, gutter) };
        let gaps = (columns - 1) as f64 * GAP;
        let cell = (wide - 2.0 * MARGIN - 6.0 - once - gaps) / columns as f64;
        let mut at = top;
        if same_y {
            at += HEAD_LINE;
            canvas.text((MARGIN, at - 4.0), &first.y.label, BODY, Anchor::Start, FAINT);
        }
        for (row, line) in panels.chunks(columns).enumerate() {
            let heads = line.iter().map(|p| p.head(cell, same_y)).collect::<Vec<_>>();
            let tallest = heads.iter().map(Vec::len).max().unwrap_or(0);
            let from = at + tallest as f64 * HEAD_LINE + if same_y { 4.0 } else { 8.0 };
            for (column, (panel, head)) in line.iter().zip(&heads).enumerate() {
                let left = MARGIN + once + column as f64 * (cell + GAP);
                let skipped = tallest - head.len();
                for (i, (text, ink)) in head.iter().enumerate() {
                    let y = at + (skipped + i + 1) as f64 * HEAD_LINE - 3.0;
                    let size = if *ink == INK { HEAD } else { BODY };
                    canvas.text((left, y), text, size, Anchor::Start, *ink);
                }
                let frame =
                    PlacedPanel { panel, left: left + each, top: from, width: cell - each, height };
                let below = (row + 1) * columns + column < panels.len();
                frame.draw(canvas, column == 0 || !same_y, !same_x || !below);
                frame.spots(canvas, legend);
                if !same_x {
                    frame.x_label(canvas);
                }
            }
            let last = (row + 1) * columns >= panels.len();
            at = from + height + if same_x && !last { 8.0 } else { 20.0 };
            if !same_x {
                at += HEAD_LINE;
            }
        }
        if same_x {
            let middle = (MARGIN + once + wide - MARGIN - 6.0) / 2.0;
            at += HEAD_LINE;
            canvas.text((middle, at - 4.0), &first.x.label, BODY, Anchor::Middle, FAINT);
        }
        at
    }
}

impl Curve {
    /// What its values belong to.
    fn keys(&self) -> Vec<String> {
        self.points.iter().map(|point| point.key.clone()).collect()
    }
}

impl Panel {
    /// The lines above a panel: its title and, unless all panels share it, its y label.
    fn head(&self, room: f64, same_y: bool) -> Vec<(String, Colour)> {
        let lines = |text: &str, size, ink| {
            let lines = if text.is_empty() { vec![] } else { wrap(text, size, room, 2) };
            lines.into_iter().map(move |line| (line, ink)).collect::<Vec<_>>()
        };
        let mut head = lines(&self.title, HEAD, INK);
        if !same_y {
            head.extend(lines(&self.y.label, BODY, FAINT));
        }
        head
    }
}

/// A panel and its position.
struct PlacedPanel<'a> {
    panel: &'a Panel,
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl PlacedPanel<'_> {
    fn x(&self, value: f64) -> f64 {
        self.left + self.panel.x.place(value) * self.width
    }

    fn y(&self, value: f64) -> f64 {
        self.top + (1.0 - self.panel.y.place(value)) * self.height
    }

    fn draw(&self, canvas: &mut Canvas, y_ticks: bool, x_ticks: bool) {
        self.axes(canvas, y_ticks, x_ticks);
        let banded = self.panel.curves.len() <= MOST_BANDS;
        if banded {
            for curve in &self.panel.curves {
                canvas.keyed(curve.keys(), |canvas| self.band(canvas, curve));
            }
        }
        for curve in &self.panel.curves {
            let predicted = curve.predicted.iter().map(|&(x, y)| (self.x(x), self.y(y)));
            let predicted = predicted.collect::<Vec<_>>();
            let ink = curve.style.colour;
            canvas.keyed(curve.keys(), |canvas| canvas.predicted(&predicted, ink));
        }
        for (i, curve) in self.panel.curves.iter().enumerate() {
            canvas.keyed(curve.keys(), |canvas| self.curve(canvas, curve, self.aside(i)));
        }
        self.labels(canvas);
    }

    /// Draws the measured values of a curve, `aside` pixels to the right of where they are.
    fn curve(&self, canvas: &mut Canvas, curve: &Curve, aside: f64) {
        let Style { colour, .. } = curve.style;
        let places = curve.points.iter().map(|p| (self.x(p.x) + aside, self.y(p.y)));
        let places = places.collect::<Vec<_>>();
        canvas.line(&places, colour, 1.6);
        for (point, &(x, y)) in curve.points.iter().zip(&places) {
            if let Some((lo, hi)) = point.y_interval.filter(|_| !self.has_band(curve)) {
                canvas.line(&[(x, self.y(lo)), (x, self.y(hi))], colour, 1.1);
            }
            if let Some((lo, hi)) = point.x_interval {
                canvas.line(&[(self.x(lo), y), (self.x(hi), y)], colour, 1.1);
            }
        }
        for &place in &places {
            canvas.mark(place, curve.style);
        }
    }

    /// How many pixels the `i`-th curve lies to the right of its values: bars of several
    /// curves at the same x are drawn side by side.
    fn aside(&self, i: usize) -> f64 {
        let curves = self.panel.curves.len();
        let side_by_side = curves > MOST_BANDS && self.panel.x.chosen;
        let middle = (curves as f64 - 1.0) / 2.0;
        if side_by_side { (i as f64 - middle) * 2.5 } else { 0.0 }
    }

    /// Lets readers of a page point at every measured value.
    fn spots(&self, canvas: &mut Canvas, legend: &[LegendEntry]) {
        let (x_label, y_label) = (&self.panel.x.label, &self.panel.y.label);
        for (i, curve) in self.panel.curves.iter().enumerate() {
            let name = legend::label(legend, LegendSample::Curve(curve.style));
            for point in &curve.points {
                let mut lines = vec![
                    self.panel.title.clone(),
                    name.to_owned(),
                    point.label.clone(),
                    measured(x_label, point.x, point.x_interval),
                    measured(y_label, point.y, point.y_interval),
                ];
                let same = |&&(x, _): &&(f64, f64)| x == point.x;
                lines.extend(curve.predicted.iter().find(same).map(|(_, y)| predicted(*y)));
                let at = (self.x(point.x) + self.aside(i), self.y(point.y));
                canvas.spot(TipSpot::around(at, RADIUS + 3.0, lines, &point.key));
            }
        }
    }

    fn axes(&self, canvas: &mut Canvas, y_ticks: bool, x_ticks: bool) {
        let (right, bottom) = (self.left + self.width, self.top + self.height);
        let even = self.panel.even.and_then(|even| even.on(&self.panel.y));
        let even = even.map(|(value, loss)| (self.y(value), loss));
        if let Some((y, true)) = even {
            canvas.rect((self.left, y), self.width, bottom - y, LOSS);
        }
        let y_axis = self.panel.y.ticks().map(|(value, label)| (self.y(value), label));
        let y_axis = y_axis.collect::<Vec<_>>();
        for (y, _) in &y_axis {
            canvas.line(&[(self.left, *y), (right, *y)], RULE, 0.8);
        }
        for (y, label) in y_axis.iter().filter(|_| y_ticks) {
            canvas.text((self.left - 6.0, y + 4.0), label, BODY, Anchor::End, FAINT);
        }
        canvas.line(&[(self.left, bottom), (right, bottom)], FAINT, 1.0);
        let ticks = self.panel.x.ticks().map(|(value, label)| (self.x(value), label));
        x_axis(canvas, ticks, bottom, x_ticks.then_some(bottom + 15.0));
        if let Some((y, _)) = even {
            canvas.reference((self.left, y), (right, y));
        }
    }

    fn x_label(&self, canvas: &mut Canvas) {
        let at = (self.left + self.width / 2.0, self.top + self.height + 31.0);
        let label = wrap(&self.panel.x.label, BODY, self.width, 1).concat();
        canvas.text(at, &label, BODY, Anchor::Middle, FAINT);
    }

    /// Whether intervals are drawn as a band: if there are few curves and every point of this
    /// one has an interval.
    fn has_band(&self, curve: &Curve) -> bool {
        let whole = curve.points.iter().all(|p| p.y_interval.is_some() && p.x_interval.is_none());
        self.panel.curves.len() <= MOST_BANDS && curve.points.len() > 1 && whole
    }

    fn band(&self, canvas: &mut Canvas, curve: &Curve) {
        if !self.has_band(curve) {
            return;
        }
        let ends = curve.points.iter().filter_map(|p| Some((self.x(p.x), p.y_interval?)));
        let ends = ends.collect::<Vec<_>>();
        let upper = ends.iter().map(|&(x, (_, hi))| (x, self.y(hi)));
        let lower = ends.iter().rev().map(|&(x, (lo, _))| (x, self.y(lo)));
        canvas.tint(upper.chain(lower).collect(), curve.style.colour);
    }

    /// Writes the labels of points next to them if there is room.
    fn labels(&self, canvas: &mut Canvas) {
        let mut labels = Labels::within((self.left, self.top), self.width, self.height);
        let points = || self.panel.curves.iter().flat_map(|c| c.points.iter().map(move |p| (c, p)));
        for (_, p) in points() {
            let (x, y) = (self.x(p.x), self.y(p.y));
            labels.avoid((x - RADIUS, y - RADIUS), (x + RADIUS, y + RADIUS));
            if let Some((lo, hi)) = p.y_interval {
                labels.avoid((x - 1.0, self.y(hi)), (x + 1.0, self.y(lo)));
            }
            if let Some((lo, hi)) = p.x_interval {
                labels.avoid((self.x(lo), y - 1.0), (self.x(hi), y + 1.0));
            }
        }
        for pair in self.panel.curves.iter().flat_map(|c| c.points.windows(2)) {
            let [from, to] = [&pair[0], &pair[1]].map(|p| (self.x(p.x), self.y(p.y)));
            labels.avoid_line(from, to);
        }
        for (curve, p) in points().filter(|(_, p)| !p.label.is_empty()) {
            labels.put(canvas, (self.x(p.x), self.y(p.y)), &p.label, curve.style.colour);
        }
    }
}

/// Draws ticks below a panel. With a `baseline`, labels every n-th tick there, with the
/// smallest n for which labels do not touch; a tick at 1 keeps its label.
pub(super) fn x_axis(
    canvas: &mut Canvas,
    ticks: impl Iterator<Item = (f64, String)>,
    bottom: f64,
    baseline: Option<f64>,
) {
    let ticks = ticks.collect::<Vec<_>>();
    for (x, _) in &ticks {
        canvas.line(&[(*x, bottom), (*x, bottom + 3.5)], FAINT, 1.0);
    }
    let Some(y) = baseline else { return };
    let one = ticks.iter().position(|(_, label)| label == "1").unwrap_or(0);
    let every = |n: usize| ticks.iter().skip(one % n).step_by(n);
    let half = |label: &str| width(label, BODY) / 2.0;
    let free = |n: &usize| {
        let next = every(*n).skip(1);
        every(*n).zip(next).all(|((a, l), (b, m))| b - a > half(l) + half(m) + 6.0)
    };
    let n = (1..ticks.len().max(2)).find(free).unwrap_or(ticks.len().max(1));
    for (x, label) in every(n) {
        canvas.text((*x, y), label, BODY, Anchor::Middle, FAINT);
    }
}
