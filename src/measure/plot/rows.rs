//! Rows of values: a label on the left, and a value or a bar in every column.

use super::axis::{Axis, reach};
use super::canvas::{Anchor, BODY, Canvas, CanvasPoint, FAINT, HEAD, INK, MARGIN, RULE};
use super::grid::{Even, x_axis};
use super::legend::{self, LegendEntry, LegendSample};
use super::style::{Colour, LOSS, Style};
use super::text::{width, wrap};
use super::tips::{TipSpot, measured, predicted};

/// A table with drawn cells.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rows {
    pub(crate) columns: Vec<Column>,
    pub(crate) groups: Vec<Group>,
    /// The colours of a bar's parts.
    pub(crate) parts: Vec<Colour>,
}

/// A column: its title, axis and reference value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) title: String,
    pub(crate) axis: Axis,
    pub(crate) even: Option<Even>,
}

/// Rows under a common title; the title may be empty.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    pub(crate) title: String,
    pub(crate) rows: Vec<Row>,
}

/// A row, with a value per column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) style: Style,
    pub(crate) values: Vec<PlotValue>,
    /// What each value belongs to: a page can hide it with everything else that does.
    pub(crate) keys: Vec<String>,
}

/// The contents of a cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum PlotValue {
    /// Nothing was measured.
    #[default]
    None,
    /// A value with its interval and its prediction.
    Dot { x: f64, interval: Option<(f64, f64)>, predicted: Option<f64> },
    /// The parts of a whole, stacked from 0.
    Bar(Vec<f64>),
}

impl PlotValue {
    /// A value without a prediction; [`PlotValue::None`] if there is no value.
    pub(crate) fn dot(x: Option<f64>, interval: Option<(f64, f64)>) -> Self {
        x.map_or(Self::None, |x| Self::Dot { x, interval, predicted: None })
    }

    /// What the axis must enclose of a dot.
    pub(crate) fn reach(&self) -> Vec<f64> {
        match *self {
            Self::Dot { x, interval, predicted } => {
                reach(x, interval).into_iter().chain(predicted).collect()
            }
            Self::Bar(_) | Self::None => Vec::new(),
        }
    }
}

const LINE: f64 = 14.0;
const PITCH: f64 = 16.0;
const GAP: f64 = 24.0;
/// Pixels between groups.
const APART: f64 = 5.0;
/// The minimum width of a column and the maximum width of labels, in pixels.
const COLUMN: f64 = 110.0;
const LABELS: f64 = 350.0;
/// The largest share of a narrow page that labels take.
const WIDEST: f64 = 0.5;
const MOST_COLUMNS: usize = 4;
/// With more rows than this, ticks are repeated above them.
const TALL: usize = 25;

impl Rows {
    /// Draws the rows, repeated for each band of columns if not all columns fit side by side;
    /// returns where they end, in pixels.
    pub(super) fn draw(&self, canvas: &mut Canvas, top: f64, legend: &[LegendEntry]) -> f64 {
        let labels = self.rows().map(|row| width(&row.label, BODY)).fold(0.0, f64::max);
        let whole = canvas.width - 2.0 * MARGIN - 6.0;
        let labels = labels.min(LABELS.min(whole * WIDEST)) + 10.0;
        let room = whole - labels;
        let most = ((room + GAP) / (COLUMN + GAP)) as usize;
        let bands = self.columns.len().div_ceil(most.clamp(1, MOST_COLUMNS)).max(1);
        let columns = self.columns.len().div_ceil(bands).max(1);
        let wide = (room - (columns - 1) as f64 * GAP) / columns as f64;
        let mut at = top;
        for band in 0..bands {
            let first = band * columns;
            let sheet = Sheet { rows: self, first, columns, labels, wide, legend };
            at = sheet.draw(canvas, at) + if band + 1 < bands { 14.0 } else { 0.0 };
        }
        at
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.groups.iter().flat_map(|group| &group.rows)
    }
}

/// A band: all rows with some of the columns.
struct Sheet<'a> {
    rows: &'a Rows,
    first: usize,
    columns: usize,
    labels: f64,
    wide: f64,
    legend: &'a [LegendEntry],
}

/// A row with the title of its group, the y of its middle and the lines of its label.
struct Placed<'a> {
    group: &'a str,
    row: &'a Row,
    y: f64,
    label: Vec<String>,
}

/// The vertical positions of titles and rows.
struct Lines<'a> {
    titles: Vec<(f64, String)>,
    rows: Vec<Placed<'a>>,
    top: f64,
    bottom: f64,
}

impl Sheet<'_> {
    fn columns(&self) -> impl Iterator<Item = (usize, f64, &Column)> {
        let shown = self.rows.columns.iter().enumerate().skip(self.first).take(self.columns);
        let left = |i: usize| MARGIN + self.labels + (i - self.first) as f64 * (self.wide + GAP);
        shown.map(move |(i, column)| (i, left(i), column))
    }

    fn draw(&self, canvas: &mut Canvas, top: f64) -> f64 {
        let heads = self.columns().map(|(_, left, column)| {
            let title = &column.title;
            let lines = if title.is_empty() { vec![] } else { wrap(title, HEAD, self.wide, 2) };
            (left, lines)
        });
        let heads = heads.collect::<Vec<_>>();
        let tallest = heads.iter().map(|(_, lines)| lines.len()).max().unwrap_or(0);
        for (left, lines) in &heads {
            for (i, line) in lines.iter().enumerate() {
                let y = top + (tallest - lines.len() + i + 1) as f64 * LINE - 2.0;
                canvas.text((*left, y), line, HEAD, Anchor::Start, INK);
            }
        }
        let mut from = top + tallest as f64 * LINE + 4.0;
        if self.rows.rows().count() > TALL {
            from += 14.0;
            for (_, left, column) in self.columns() {
                let ticks = self.ticks(left, column);
                x_axis(canvas, ticks, from - 3.5, Some(from - 6.0));
            }
        }
        let lines = self.place(from, canvas.width);
        for (i, left, column) in self.columns() {
            self.column(canvas, i, left, column, &lines);
        }
        self.write(canvas, &lines);
        let bottom = lines.bottom;
        bottom + 20.0 + self.axis_labels(canvas, bottom + 31.0)
    }

    /// Writes the axis labels below every column, or only once if all are the same. Returns
    /// their height in pixels.
    fn axis_labels(&self, canvas: &mut Canvas, baseline: f64) -> f64 {
        let ends = |left: f64| (left, left + self.wide);
        let labels = self.columns().map(|(_, left, column)| (ends(left), &*column.axis.label));
        let mut labels = labels.collect::<Vec<_>>();
        if let (Some(&((left, _), label)), Some(&((_, right), _))) = (labels.first(), labels.last())
            && labels.iter().all(|(_, other)| *other == label)
        {
            labels = vec![((left, right), label)];
        }
        let mut most = 0;
        for ((left, right), label) in labels {
            let lines = wrap(label, BODY, right - left, 2);
            for (i, line) in lines.iter().enumerate() {
                let at = ((left + right) / 2.0, baseline + i as f64 * LINE);
                canvas.text(at, line, BODY, Anchor::Middle, FAINT);
            }
            most = most.max(lines.len());
        }
        most as f64 * LINE
    }

    /// Places titles and rows from `top` downwards.
    fn place(&self, top: f64, across: f64) -> Lines<'_> {
        let mut lines = Lines { titles: Vec::new(), rows: Vec::new(), top, bottom: top };
        for group in &self.rows.groups {
            if !lines.rows.is_empty() {
                lines.bottom += APART;
            }
            if !group.title.is_empty() {
                lines.bottom += PITCH + 2.0;
                let title = wrap(&group.title, HEAD, across - 2.0 * MARGIN, 1).concat();
                lines.titles.push((lines.bottom - 5.0, title));
            }
            for row in &group.rows {
                let label = wrap(&row.label, BODY, self.labels - 10.0, 2);
                let high = PITCH + (label.len() - 1) as f64 * (LINE - 1.0);
                let (group, y) = (&*group.title, lines.bottom + high / 2.0);
                lines.rows.push(Placed { group, row, y, label });
                lines.bottom += high;
            }
        }
        lines.bottom += 2.0;
        lines
    }

    fn write(&self, canvas: &mut Canvas, lines: &Lines<'_>) {
        for (y, title) in &lines.titles {
            canvas.text((MARGIN, *y), title, HEAD, Anchor::Start, INK);
        }
        for Placed { y, label, .. } in &lines.rows {
            for (i, line) in label.iter().enumerate() {
                let down = (i as f64 - (label.len() - 1) as f64 / 2.0) * (LINE - 1.0);
                let at = (MARGIN + self.labels - 10.0, y + down + 4.0);
                canvas.text(at, line, BODY, Anchor::End, INK);
            }
        }
    }

    fn ticks<'c>(
        &'c self,
        left: f64,
        column: &'c Column,
    ) -> impl Iterator<Item = (f64, String)> + 'c {
        column.axis.ticks().map(move |(x, label)| (left + column.axis.place(x) * self.wide, label))
    }

    fn column(&self, canvas: &mut Canvas, i: usize, left: f64, column: &Column, lines: &Lines<'_>) {
        let (top, bottom) = (lines.top, lines.bottom);
        let x = |value: f64| left + column.axis.place(value) * self.wide;
        let even = column.even.and_then(|even| even.on(&column.axis));
        let even = even.map(|(value, loss)| (x(value), loss));
        if let Some((even, true)) = even {
            canvas.rect((left, top), even - left, bottom - top, LOSS);
        }
        for (x, _) in self.ticks(left, column) {
            canvas.line(&[(x, top), (x, bottom)], RULE, 0.8);
        }
        canvas.line(&[(left, bottom), (left + self.wide, bottom)], FAINT, 1.0);
        x_axis(canvas, self.ticks(left, column), bottom, Some(bottom + 15.0));
        if let Some((even, _)) = even {
            canvas.reference((even, top), (even, bottom));
        }
        for placed @ Placed { row, y, .. } in &lines.rows {
            let key = row.keys.get(i).cloned().unwrap_or_default();
            self.spot(canvas, (i, column), placed, &x, &key);
            canvas.keyed(vec![key], |canvas| match row.values.get(i) {
                Some(PlotValue::Dot { x: value, interval, predicted }) => {
                    canvas.line(&[(left, *y), (left + self.wide, *y)], RULE, 0.5);
                    if let Some((lo, hi)) = interval {
                        canvas.line(&[(x(*lo), *y), (x(*hi), *y)], row.style.colour, 1.8);
                    }
                    if let Some(predicted) = predicted {
                        canvas.hollow((x(*predicted), *y), FAINT);
                    }
                    canvas.mark((x(*value), *y), row.style);
                }
                Some(PlotValue::Bar(parts)) => self.bar(canvas, parts, &x, *y),
                Some(PlotValue::None) | None => {}
            });
        }
    }

    /// Lets readers of a page point at the value of a row in a column.
    fn spot(
        &self,
        canvas: &mut Canvas,
        (i, column): (usize, &Column),
        Placed { group, row, y, .. }: &Placed<'_>,
        x: &dyn Fn(f64) -> f64,
        key: &str,
    ) {
        let mut lines = vec![(*group).to_owned(), row.label.clone(), column.title.clone()];
        let label = &column.axis.label;
        match row.values.get(i) {
            Some(PlotValue::Dot { x: value, interval, predicted: forecast }) => {
                lines.push(measured(label, *value, *interval));
                lines.extend(forecast.map(predicted));
                canvas.spot(TipSpot::around((x(*value), *y), PITCH / 2.0, lines, key));
            }
            Some(PlotValue::Bar(parts)) => {
                let whole = parts.iter().sum::<f64>();
                lines.push(measured(label, whole, None));
                lines.extend(parts.iter().zip(&self.rows.parts).map(|(part, colour)| {
                    measured(legend::label(self.legend, LegendSample::Part(*colour)), *part, None)
                }));
                let (from, to) = (x(0.0), x(whole));
                canvas.spot(TipSpot::over((from, y - PITCH / 2.0), (to - from, PITCH), lines, key));
            }
            Some(PlotValue::None) | None => {}
        }
    }

    fn bar(&self, canvas: &mut Canvas, parts: &[f64], x: &dyn Fn(f64) -> f64, y: f64) {
        let mut from = 0.0;
        for (part, colour) in parts.iter().zip(&self.rows.parts) {
            let corner: CanvasPoint = (x(from), y - PITCH * 0.36);
            canvas.rect(corner, x(from + part) - x(from), PITCH * 0.72, *colour);
            from += part;
        }
    }
}
