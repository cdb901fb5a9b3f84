//! The canvas: text, lines, areas and markers at positions in pixels, rendered by kuva or
//! into a page.

use anyhow::{Result, anyhow};
use kuva::backend::svg::SvgBackend;
use kuva::render::color::Color;
use kuva::render::render::{PathData, Primitive, Scene, TextAnchor};

use super::inline::{Inlined, KeyedSpan, TipSpot};
pub(super) use super::style::{CanvasPoint, FAINT, INK, RULE};
use super::style::{Colour, Marker, Style};
use crate::shown;

/// Width of figures in files, in pixels: repository pages show this width without scaling.
/// The PNG has two dots per pixel.
pub(super) const WIDTH: f64 = 800.0;

/// Margin in pixels on all sides.
pub(super) const MARGIN: f64 = 14.0;

/// Font sizes of the figure's title, of panel titles and of all other text.
pub(super) const TITLE: u32 = 16;
pub(super) const HEAD: u32 = 12;
pub(super) const BODY: u32 = 11;

/// The radius of a marker.
pub(super) const RADIUS: f64 = 3.8;

const FONTS: &str = "DejaVu Sans, Verdana, Liberation Sans, Arial, sans-serif";

/// Dash and gap of lines of predictions.
const DASH: [f64; 2] = [6.0, 4.0];

/// Which part of a text lies at its position.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A rendered figure.
#[derive(Debug)]
pub struct Drawn {
    /// The contents of the SVG file.
    pub svg: String,
    /// The contents of the PNG file, which shows the same drawing.
    pub png: Vec<u8>,
}

/// A canvas of fixed width that grows downwards.
pub(super) struct Canvas {
    scene: Scene,
    /// What a page lets readers point at.
    spots: Vec<TipSpot>,
    /// What belongs to which keys.
    spans: Vec<KeyedSpan>,
}

impl Canvas {
    pub(super) fn new(width: f64) -> Self {
        let mut scene = Scene::new(width, 0.0);
        scene.font_family = Some(FONTS.to_owned());
        Self { scene, spots: Vec::new(), spans: Vec::new() }
    }

    /// Width in pixels.
    pub(super) fn width(&self) -> f64 {
        self.scene.width
    }

    /// Lets readers of a page point at a value.
    pub(super) fn spot(&mut self, spot: TipSpot) {
        self.spots.push(spot);
    }

    /// The number of elements so far, with which a span begins.
    pub(super) fn begin(&self) -> usize {
        self.scene.elements.len()
    }

    /// Notes that what was drawn since `begin` belongs to these keys.
    pub(super) fn end(&mut self, begin: usize, keys: Vec<String>) {
        let end = self.begin();
        self.spans.push(KeyedSpan { elements: begin..end, keys });
    }

    /// The drawing as a part of a page.
    pub(super) fn inline(self, height: f64, name: &str) -> Inlined {
        Inlined::of(
            &self.scene.elements,
            (self.scene.width, height.ceil()),
            name,
            &self.spots,
            &self.spans,
        )
    }

    /// Renders the canvas, whose height is known only now.
    ///
    /// # Errors
    /// If the renderer fails.
    pub(super) fn print(mut self, height: f64) -> Result<Drawn> {
        self.scene.height = height.ceil();
        let png = kuva::PngBackend::new().render_scene(&self.scene);
        let svg = SvgBackend::new().render_scene(&self.scene);
        // Without a view box, a page that shows the SVG smaller would crop it.
        let view = format!("<svg viewBox=\"0 0 {} {}\"", self.scene.width, self.scene.height);
        let svg = svg.replacen("<svg", &view, 1);
        Ok(Drawn { svg, png: png.map_err(|e| anyhow!("cannot be drawn: {e}"))? })
    }

    /// A line of text; `at` lies on its baseline.
    pub(super) fn text(
        &mut self,
        at: CanvasPoint,
        text: &str,
        size: u32,
        anchor: Anchor,
        ink: Colour,
    ) {
        self.scene.add(Primitive::Text {
            x: at.0,
            y: at.1,
            // The renderer would parse text between dollar signs as a formula.
            content: shown::line(text).replace('$', "\\$"),
            size,
            anchor: match anchor {
                Anchor::Start => TextAnchor::Start,
                Anchor::Middle => TextAnchor::Middle,
                Anchor::End => TextAnchor::End,
            },
            rotate: None,
            bold: false,
            color: Some(color(ink)),
        });
    }

    pub(super) fn line(&mut self, points: &[CanvasPoint], ink: Colour, width: f64) {
        self.scene.add(Primitive::PolyLine {
            points: points.to_vec(),
            stroke: color(ink),
            stroke_width: width,
            stroke_dasharray: None,
        });
    }

    /// A dashed line, drawn dash by dash since the SVG and PNG renderers disagree on the unit
    /// of dash lengths.
    pub(super) fn dashed(
        &mut self,
        points: &[CanvasPoint],
        ink: Colour,
        width: f64,
        dash: [f64; 2],
    ) {
        for (from, to) in points.iter().zip(points.iter().skip(1)) {
            let length = (to.0 - from.0).hypot(to.1 - from.1);
            let along = |s: f64| {
                let part = (s / length).min(1.0);
                (from.0 + part * (to.0 - from.0), from.1 + part * (to.1 - from.1))
            };
            let dashes = (length / (dash[0] + dash[1])).ceil() as usize;
            for start in (0..dashes).map(|i| i as f64 * (dash[0] + dash[1])) {
                self.line(&[along(start), along(start + dash[0])], ink, width);
            }
        }
    }

    /// A dashed line of predictions.
    pub(super) fn predicted(&mut self, points: &[CanvasPoint], ink: Colour) {
        self.dashed(points, ink, 1.5, DASH);
    }

    /// A dashed reference line.
    pub(super) fn reference(&mut self, from: CanvasPoint, to: CanvasPoint) {
        self.dashed(&[from, to], FAINT, 1.2, [2.0, 2.5]);
    }

    pub(super) fn area(&mut self, outline: &[CanvasPoint], ink: Colour, opacity: f64) {
        self.fill(outline, ink, Some(opacity));
    }

    pub(super) fn rect(&mut self, corner: CanvasPoint, width: f64, height: f64, ink: Colour) {
        self.scene.add(Primitive::Rect {
            x: corner.0,
            y: corner.1,
            width,
            height,
            fill: color(ink),
            stroke: None,
            stroke_width: None,
            opacity: None,
        });
    }

    /// A measured value.
    pub(super) fn mark(&mut self, at: CanvasPoint, style: Style) {
        let r = RADIUS;
        let around = |spots: &[CanvasPoint]| {
            spots.iter().map(|(dx, dy)| (at.0 + dx * r, at.1 + dy * r)).collect::<Vec<_>>()
        };
        let ink = style.colour;
        let mut filled = |spots: &[CanvasPoint]| self.fill(&around(spots), ink, None);
        match style.marker {
            Marker::Circle => self.circle(at, r, Some(ink), None),
            Marker::Ring => self.circle(at, r * 0.85, None, Some(ink)),
            Marker::Square => filled(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            Marker::Triangle => filled(&[(0.0, -1.15), (1.1, 0.8), (-1.1, 0.8)]),
            Marker::Wedge => filled(&[(0.0, 1.15), (1.1, -0.8), (-1.1, -0.8)]),
            Marker::Diamond => filled(&[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)]),
            Marker::Cross => {
                self.strokes(&around(&[(-1., -1.), (1., 1.), (-1., 1.), (1., -1.)]), ink)
            }
            Marker::Frame => {
                filled(&[(-1.1, -1.1), (1.1, -1.1), (1.1, 1.1), (-1.1, 1.1)]);
                let (corner, side) = ((at.0 - 0.6 * r, at.1 - 0.6 * r), 1.2 * r);
                self.rect(corner, side, side, [0xff, 0xff, 0xff]);
            }
        }
    }

    /// A predicted value: a hollow diamond.
    pub(super) fn hollow(&mut self, at: CanvasPoint, ink: Colour) {
        let r = RADIUS + 0.7;
        let outline = [(0.0, -r), (r, 0.0), (0.0, r), (-r, 0.0), (0.0, -r)];
        self.line(&outline.map(|(dx, dy)| (at.0 + dx, at.1 + dy)), ink, 1.1);
    }

    fn strokes(&mut self, ends: &[CanvasPoint], ink: Colour) {
        ends.chunks(2).for_each(|pair| self.line(pair, ink, 1.8));
    }

    fn circle(&mut self, at: CanvasPoint, r: f64, fill: Option<Colour>, stroke: Option<Colour>) {
        self.scene.add(Primitive::Circle {
            cx: at.0,
            cy: at.1,
            r,
            fill: fill.map_or(Color::Rgb(255, 255, 255), color),
            fill_opacity: None,
            stroke: stroke.map(color),
            stroke_width: stroke.map(|_| 1.6),
        });
    }

    fn fill(&mut self, outline: &[CanvasPoint], ink: Colour, opacity: Option<f64>) {
        let mut d = String::new();
        for (i, (x, y)) in outline.iter().enumerate() {
            d += &format!("{} {x:.2} {y:.2} ", if i == 0 { 'M' } else { 'L' });
        }
        self.scene.add(Primitive::Path(Box::new(PathData {
            d: d + "Z",
            fill: Some(color(ink)),
            stroke: Color::None,
            stroke_width: 0.0,
            opacity,
            stroke_dasharray: None,
        })));
    }
}

fn color(ink: Colour) -> Color {
    Color::Rgb(ink[0], ink[1], ink[2])
}
