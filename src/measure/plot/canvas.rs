//! The canvas: text, lines, areas and markers at positions in pixels.

pub(super) use super::shape::Anchor;
use super::shape::{Layer, Paint, PlotShape};
pub(super) use super::style::{BODY, CanvasPoint, FAINT, HEAD, INK, RULE, TITLE};
use super::style::{Colour, Marker, Style};
use super::svg::{self, Inlined};
use super::tips::TipSpot;
use crate::io::shown;

/// Width of figures in files, in pixels: repository pages show this width without scaling.
pub(super) const WIDTH: f64 = 800.0;

/// Margin in pixels on all sides.
pub(super) const MARGIN: f64 = 14.0;

pub(super) const RADIUS: f64 = 3.8;

/// A canvas of fixed width that grows downwards.
pub(super) struct Canvas {
    /// In pixels.
    pub(super) width: f64,
    layers: Vec<Layer>,
    /// What a page lets readers point at.
    spots: Vec<TipSpot>,
}

impl Canvas {
    pub(super) fn new(width: f64) -> Self {
        Self { width, layers: Vec::new(), spots: Vec::new() }
    }

    /// Lets readers of a page point at a value.
    pub(super) fn spot(&mut self, spot: TipSpot) {
        self.spots.push(spot);
    }

    /// Draws what belongs to these keys.
    pub(super) fn keyed(&mut self, keys: Vec<String>, draw: impl FnOnce(&mut Self)) {
        self.layers.push(Layer { keys, shapes: Vec::new() });
        draw(self);
        self.layers.push(Layer::default());
    }

    /// The drawing as a file, now that its height is known.
    pub(super) fn file(&self, height: f64) -> String {
        svg::file(&self.layers, (self.width, height.ceil()))
    }

    /// The drawing as a part of a page.
    pub(super) fn inline(&self, height: f64, name: &str) -> Inlined {
        svg::inline(&self.layers, &self.spots, (self.width, height.ceil()), name)
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
        self.add(PlotShape::Text { at, text: shown::line(text), size, anchor, ink });
    }

    pub(super) fn line(&mut self, points: &[CanvasPoint], ink: Colour, width: f64) {
        self.stroke(points, ink, width, None);
    }

    /// A dashed line of predictions.
    pub(super) fn predicted(&mut self, points: &[CanvasPoint], ink: Colour) {
        self.stroke(points, ink, 1.5, Some([6.0, 4.0]));
    }

    /// A dashed reference line.
    pub(super) fn reference(&mut self, from: CanvasPoint, to: CanvasPoint) {
        self.stroke(&[from, to], FAINT, 1.2, Some([2.0, 2.5]));
    }

    /// An area through which lines below it show.
    pub(super) fn tint(&mut self, outline: Vec<CanvasPoint>, ink: Colour) {
        self.polygon(outline, Paint::Tint(ink));
    }

    pub(super) fn rect(&mut self, corner: CanvasPoint, width: f64, height: f64, ink: Colour) {
        let ((left, top), (right, bottom)) = (corner, (corner.0 + width, corner.1 + height));
        let outline = vec![(left, top), (right, top), (right, bottom), (left, bottom)];
        self.polygon(outline, Paint::Solid(ink));
    }

    /// A measured value.
    pub(super) fn mark(&mut self, at: CanvasPoint, Style { colour, marker }: Style) {
        let around = |spots: &[CanvasPoint]| {
            spots.iter().map(|(x, y)| (at.0 + x * RADIUS, at.1 + y * RADIUS)).collect::<Vec<_>>()
        };
        let square = |r: f64| around(&[(-r, -r), (r, -r), (r, r), (-r, r)]);
        let (solid, hollow) = (Paint::Solid(colour), |width| Paint::Hollow(colour, width));
        match marker {
            Marker::Circle => self.add(PlotShape::Circle { at, r: RADIUS, paint: solid }),
            Marker::Ring => {
                self.add(PlotShape::Circle { at, r: RADIUS * 0.85, paint: hollow(1.6) })
            }
            Marker::Square => self.polygon(square(0.9), solid),
            Marker::Frame => self.polygon(square(0.85), hollow(0.5 * RADIUS)),
            Marker::Triangle => {
                self.polygon(around(&[(0.0, -1.15), (1.1, 0.8), (-1.1, 0.8)]), solid);
            }
            Marker::Wedge => {
                self.polygon(around(&[(0.0, 1.15), (1.1, -0.8), (-1.1, -0.8)]), solid);
            }
            Marker::Diamond => {
                let tips = [(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)];
                self.polygon(around(&tips), solid);
            }
            Marker::Cross => {
                self.line(&around(&[(-1.0, -1.0), (1.0, 1.0)]), colour, 1.8);
                self.line(&around(&[(-1.0, 1.0), (1.0, -1.0)]), colour, 1.8);
            }
        }
    }

    /// A predicted value: a diamond of lines.
    pub(super) fn hollow(&mut self, at: CanvasPoint, ink: Colour) {
        let r = RADIUS + 0.7;
        let tips = [(0.0, -r), (r, 0.0), (0.0, r), (-r, 0.0)].map(|(x, y)| (at.0 + x, at.1 + y));
        self.polygon(tips.into(), Paint::Line { ink, width: 1.1, dash: None });
    }

    fn stroke(&mut self, points: &[CanvasPoint], ink: Colour, width: f64, dash: Option<[f64; 2]>) {
        if points.len() > 1 {
            let (points, paint) = (points.to_vec(), Paint::Line { ink, width, dash });
            self.add(PlotShape::Path { points, closed: false, paint });
        }
    }

    fn polygon(&mut self, points: Vec<CanvasPoint>, paint: Paint) {
        self.add(PlotShape::Path { points, closed: true, paint });
    }

    fn add(&mut self, shape: PlotShape) {
        match self.layers.last_mut() {
            Some(layer) => layer.shapes.push(shape),
            None => self.layers.push(Layer { keys: Vec::new(), shapes: vec![shape] }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLUE: Colour = [0x00, 0x72, 0xb2];

    /// Shapes of every kind, of which neighbours look alike.
    fn drawn() -> Canvas {
        let mut canvas = Canvas::new(80.0);
        canvas.text((1.04, 9.0), "a < \"b\"", HEAD, Anchor::End, INK);
        canvas.text((1.0, 19.96), "c", HEAD, Anchor::End, INK);
        canvas.text((3.0, 4.0), "d", BODY, Anchor::Middle, FAINT);
        canvas.text((3.0, 8.0), "e", BODY, Anchor::Start, BLUE);
        canvas.line(&[(0.0, 1.0), (5.0, 1.04), (5.0, 3.0), (7.26, 4.0)], FAINT, 0.8);
        canvas.line(&[(1.0, 2.0), (2.0, 3.0)], FAINT, 0.8);
        canvas.predicted(&[(1.0, 2.0)], BLUE);
        canvas.reference((0.0, 6.0), (9.0, 6.0));
        canvas.rect((10.0, 20.0), 5.0, 2.5, BLUE);
        canvas.keyed(vec!["k".to_owned(), "j".to_owned(), "k".to_owned()], |canvas| {
            canvas.tint(vec![(0.0, 0.0), (4.0, 0.0), (2.0, 2.0)], BLUE);
            canvas.tint(vec![(1.0, 0.0), (5.0, 0.0), (3.0, 2.0)], BLUE);
            canvas.mark((20.0, 30.0), Style { colour: BLUE, marker: Marker::Circle });
            canvas.mark((21.0, 30.0), Style { colour: BLUE, marker: Marker::Circle });
        });
        canvas.keyed(vec!["none".to_owned()], |_| {});
        canvas.mark((20.0, 30.0), Style { colour: BLUE, marker: Marker::Ring });
        canvas.spot(TipSpot::around((5.0, 5.0), 2.0, vec!["x <".into(), "y: 1".into()], "k&"));
        canvas
    }

    const TEXTS: &str = "<text x=\"1\" y=\"9\">a &lt; &quot;b&quot;</text>\
        <text x=\"1\" y=\"20\">c</text></g>";
    const WAYS: &str = "d=\"M0 1H5V3L7.3 4M1 2L2 3\"/>";
    const RING: &str = "stroke-width=\"1.6\" cx=\"20\" cy=\"30\" r=\"3.2\"/>";

    #[test]
    fn files_have_colours_and_a_background() {
        let expected = [
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 80 41\" width=\"80\" \
             height=\"41\" font-size=\"11\" fill=\"none\" font-family=\"DejaVu Sans, Verdana, \
             Liberation Sans, Arial, sans-serif\"><rect width=\"100%\" height=\"100%\" \
             fill=\"#fff\"/>",
            "<g fill=\"#1a1a1a\" font-size=\"12\" text-anchor=\"end\">",
            TEXTS,
            "<text fill=\"#555555\" text-anchor=\"middle\" x=\"3\" y=\"4\">d</text>",
            "<text fill=\"#0072b2\" x=\"3\" y=\"8\">e</text>",
            "<path stroke=\"#555555\" stroke-width=\"0.8\" ",
            WAYS,
            "<path stroke=\"#555555\" stroke-width=\"1.2\" stroke-dasharray=\"2 2.5\" \
             d=\"M0 6H9\"/>",
            "<path fill=\"#0072b2\" d=\"M10 20H15V22.5H10Z\"/>",
            "<g fill=\"#0072b2\" fill-opacity=\"0.16\"><path d=\"M0 0H4L2 2Z\"/>\
             <path d=\"M1 0H5L3 2Z\"/></g>",
            "<g fill=\"#0072b2\"><circle cx=\"20\" cy=\"30\" r=\"3.8\"/>\
             <circle cx=\"21\" cy=\"30\" r=\"3.8\"/></g>",
            "<circle fill=\"#ffffff\" stroke=\"#0072b2\" ",
            RING,
            "</svg>",
        ];
        assert_eq!(drawn().file(40.2), expected.concat());
    }

    #[test]
    fn pages_have_variables_keys_and_spots() {
        let expected = [
            "<svg viewBox=\"0 0 80 41\" width=\"80\" height=\"41\" font-size=\"11\" \
             fill=\"none\" role=\"group\" tabindex=\"0\" aria-label=\"&lt;name&gt;\">",
            "<g fill=\"var(--c-1a1a1a)\" font-size=\"12\" text-anchor=\"end\">",
            TEXTS,
            "<text fill=\"var(--c-555555)\" text-anchor=\"middle\" x=\"3\" y=\"4\">d</text>",
            "<text fill=\"var(--c-1a1a1a)\" x=\"3\" y=\"8\">e</text>",
            "<path stroke=\"var(--c-555555)\" stroke-width=\"0.8\" ",
            WAYS,
            "<path stroke=\"var(--c-555555)\" stroke-width=\"1.2\" stroke-dasharray=\"2 2.5\" \
             d=\"M0 6H9\"/>",
            "<path fill=\"var(--c-0072b2)\" d=\"M10 20H15V22.5H10Z\"/>",
            "<g data-keys=\"j k\"><g fill=\"var(--c-0072b2)\" fill-opacity=\"0.16\">\
             <path d=\"M0 0H4L2 2Z\"/><path d=\"M1 0H5L3 2Z\"/></g>",
            "<g fill=\"var(--c-0072b2)\"><circle cx=\"20\" cy=\"30\" r=\"3.8\"/>\
             <circle cx=\"21\" cy=\"30\" r=\"3.8\"/></g></g>",
            "<circle fill=\"var(--c-ffffff)\" stroke=\"var(--c-0072b2)\" ",
            RING,
            "<g class=\"spots\"><rect x=\"3\" y=\"3\" width=\"4\" height=\"4\" rx=\"3\" \
             data-key=\"k&amp;\" data-tip=\"x &lt;&#10;y: 1\"/></g></svg>",
        ];
        let inline = drawn().inline(40.2, "<name>");
        assert_eq!(inline.svg, expected.concat());
        let colours = [BLUE, INK, FAINT, [0xff; 3]];
        assert_eq!(inline.colours, colours.into());
    }
}
