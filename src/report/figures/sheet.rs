//! The common look: a row or grid of panels with one legend, in colours that
//! colour-blind readers can tell apart (Okabe and Ito 2008), each with a marker
//! of its own.

use anyhow::{Result, anyhow};
use kuva::plot::legend::{LegendEntry, LegendShape};
use kuva::plot::{BandPlot, LinePlot, LineStyle, MarkerShape, ScatterPlot};
use kuva::render::figure::{Figure, FigureLegendPosition};
use kuva::render::layout::{Layout, TickFormat};
use kuva::render::plots::Plot;
use kuva::render::render::Scene;

const COLOURS: [&str; 7] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"];

const MARKERS: [MarkerShape; 5] = [
    MarkerShape::Circle,
    MarkerShape::Square,
    MarkerShape::Triangle,
    MarkerShape::Diamond,
    MarkerShape::Cross,
];

/// The colour of the `i`-th line or bar.
pub(crate) fn colour(i: usize) -> &'static str {
    COLOURS[i % COLOURS.len()]
}

/// The marker of the `i`-th line.
pub(crate) fn marker(i: usize) -> MarkerShape {
    MARKERS[i % MARKERS.len()]
}

/// Dash and gap of predicted lines, in pixels.
pub(crate) const DASHES: &str = "12 7";

/// Dash and gap of reference lines.
pub(crate) const DOTS: &str = "3 5";

/// Grey, for what is no data.
pub(crate) const NEUTRAL: &str = "#555555";

/// One panel: its plots and axes.
pub(crate) struct Panel {
    pub(crate) plots: Vec<Plot>,
    pub(crate) layout: Layout,
}

/// A figure of one or more panels.
pub(crate) struct Sheet {
    pub(crate) title: String,
    pub(crate) columns: usize,
    pub(crate) panels: Vec<Panel>,
    pub(crate) legend: Vec<LegendEntry>,
}

/// Columns of a grid of `panels`.
pub(crate) fn columns(panels: usize) -> usize {
    if panels == 4 { 2 } else { panels.min(3) }
}

/// A figure as files.
pub(crate) struct Drawn {
    pub(crate) svg: String,
    pub(crate) png: Vec<u8>,
}

impl Sheet {
    /// Draws the figure.
    ///
    /// # Errors
    /// If the renderer fails.
    pub(crate) fn draw(self) -> Result<Drawn> {
        let scene = self.render();
        let svg = renumber(&kuva::backend::svg::SvgBackend.render_scene(&scene));
        let png = kuva::PngBackend::new().render_scene(&scene);
        Ok(Drawn { svg, png: png.map_err(|e| anyhow!("cannot be drawn: {e}"))? })
    }

    /// The figure as drawing primitives.
    fn render(self) -> Scene {
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let rows = self.panels.len().div_ceil(columns);
        let (plots, layouts) = self.panels.into_iter().map(|p| (p.plots, p.layout)).unzip();
        let width = if columns > 2 { 360.0 } else { 470.0 };
        Figure::new(rows, columns)
            .with_title(self.title)
            .with_title_size(19)
            .with_cell_size(width, 330.0)
            .with_spacing(14.0)
            .with_padding(16.0)
            .with_plots(plots)
            .with_layouts(layouts)
            .with_shared_legend_position(FigureLegendPosition::RightMiddle)
            .with_shared_legend_entries(self.legend)
            .render()
    }
}

/// Numbers the clip paths of an SVG from 0. The renderer numbers them through
/// the life of the process, which would make the bytes depend on what was drawn
/// before.
fn renumber(svg: &str) -> String {
    const PREFIX: &str = "kuva-clip-";
    let mut parts = svg.split(PREFIX);
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut seen = Vec::new();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let (number, rest) = part.split_at(end);
        let at = seen.iter().position(|n| *n == number).unwrap_or_else(|| {
            seen.push(number);
            seen.len() - 1
        });
        text += &format!("{PREFIX}{at}{rest}");
    }
    text
}

/// Axes with fixed ranges, so that panels can be compared by eye.
pub(crate) fn axes(title: &str, x: (f64, f64, &str), y: (f64, f64, &str)) -> Layout {
    Layout::new((x.0, x.1), (y.0, y.1))
        .with_title(title)
        .with_title_size(15)
        .with_label_size(14)
        .with_tick_size(12)
        .with_body_size(12)
        .with_x_label(x.2)
        .with_y_label(y.2)
        .with_x_axis_min(x.0)
        .with_x_axis_max(x.1)
        .with_y_axis_min(y.0)
        .with_y_axis_max(y.1)
        .with_x_tick_step(1.0)
        .with_x_tick_format(TickFormat::Integer)
        .with_y_tick_step(step(y.1 - y.0))
}

/// A tick distance of 1, 2 or 5 times a power of ten that divides `span` into
/// about six parts.
pub(crate) fn step(span: f64) -> f64 {
    let raw = (span / 6.0).max(f64::MIN_POSITIVE);
    let magnitude = 10f64.powf(raw.log10().floor());
    let nice = [1.0, 2.0, 5.0, 10.0].into_iter().find(|m| m * magnitude >= raw).unwrap_or(10.0);
    nice * magnitude
}

/// The end of an axis that begins at 0 and holds `value`, on a tick.
pub(crate) fn axis_end(value: f64) -> f64 {
    let step = step(value);
    (value * 1.02 / step).ceil() * step
}

/// A point of a line, with its interval if there is one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) interval: Option<(f64, f64)>,
}

/// A line with markers and, where intervals are known, a band behind it.
pub(crate) fn line(points: &[Point], i: usize) -> Vec<Plot> {
    let banded = points.iter().filter_map(|p| Some((p.x, p.interval?))).collect::<Vec<_>>();
    let band = BandPlot::new(
        banded.iter().map(|b| b.0),
        banded.iter().map(|b| b.1.0),
        banded.iter().map(|b| b.1.1),
    )
    .with_color(colour(i))
    .with_opacity(0.18);
    let xy = || points.iter().map(|p| (p.x, p.y));
    vec![
        band.into(),
        LinePlot::new().with_data(xy()).with_color(colour(i)).with_stroke_width(2.0).into(),
        ScatterPlot::new()
            .with_data(xy())
            .with_color(colour(i))
            .with_marker(marker(i))
            .with_size(4.5)
            .into(),
    ]
}

/// Points with their intervals as bars, upright or lying.
pub(crate) fn whiskers(points: &[Point], i: usize, upright: bool) -> Vec<Plot> {
    let mut plots = Vec::<Plot>::new();
    for point in points {
        if let Some((lo, hi)) = point.interval {
            let ends = if upright {
                [(point.x, lo), (point.x, hi)]
            } else {
                [(lo, point.y), (hi, point.y)]
            };
            let bar = LinePlot::new().with_data(ends).with_color(colour(i));
            plots.push(bar.with_stroke_width(1.6).into());
        }
    }
    let xy = points.iter().map(|p| (p.x, p.y));
    let marks = ScatterPlot::new().with_data(xy).with_color(colour(i)).with_marker(marker(i));
    plots.push(marks.with_size(4.5).into());
    plots
}

/// A dashed line.
pub(crate) fn dashed(points: &[Point], i: usize) -> Plot {
    LinePlot::new()
        .with_data(points.iter().map(|p| (p.x, p.y)))
        .with_color(colour(i))
        .with_stroke_width(1.8)
        .with_line_style(LineStyle::Custom(DASHES.to_owned()))
        .into()
}

/// The legend of the `i`-th line.
pub(crate) fn marked(label: &str, i: usize) -> LegendEntry {
    entry(label, colour(i), LegendShape::Marker(marker(i)))
}

/// The legend of the `i`-th bar.
pub(crate) fn filled(label: &str, i: usize) -> LegendEntry {
    entry(label, colour(i), LegendShape::Rect)
}

/// The legend of a style of line.
pub(crate) fn stroked(label: &str, dasharray: Option<&str>) -> LegendEntry {
    LegendEntry {
        dasharray: dasharray.map(str::to_owned),
        ..entry(label, NEUTRAL, LegendShape::Line)
    }
}

fn entry(label: &str, color: &str, shape: LegendShape) -> LegendEntry {
    LegendEntry { label: label.to_owned(), color: color.to_owned(), shape, dasharray: None }
}
