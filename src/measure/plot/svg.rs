//! Prints drawings as SVG: as files, and as parts of a page. Runs of shapes that look alike
//! share an element or its attributes, since most of a drawing is repeated many times.

use std::collections::BTreeSet;

use super::shape::{Anchor, Layer, Paint, PlotShape};
use super::style::{BODY, CanvasPoint, Colour, FAINT, INK, WHITE};
use super::tips::TipSpot;
use crate::io::shown;

const FONTS: &str = "DejaVu Sans, Verdana, Liberation Sans, Arial, sans-serif";

/// How opaque a tint is.
const TINT: f64 = 0.16;

/// A drawing as a part of a page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Inlined {
    /// The element, in which colour `#rrggbb` is the variable `--c-rrggbb`.
    pub(crate) svg: String,
    pub(crate) colours: BTreeSet<Colour>,
}

/// A drawing as a file, which has a white background and names its fonts; `size` is its width
/// and height in pixels.
pub(super) fn file(layers: &[Layer], size: CanvasPoint) -> String {
    let shapes = Printer::default().shapes(layers.iter().flat_map(|layer| &layer.shapes));
    // Without a view box, a page that shows the file smaller would crop it.
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" {} font-family=\"{FONTS}\">\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>{shapes}</svg>",
        frame(size)
    )
}

/// A drawing as a part of a page, which can darken its colours, hide what belongs to a key,
/// and show what a spot says.
pub(super) fn inline(
    layers: &[Layer],
    spots: &[TipSpot],
    size: CanvasPoint,
    name: &str,
) -> Inlined {
    let mut printer = Printer { colours: Some(BTreeSet::new()) };
    let layers = layers.iter().map(|layer| printer.layer(layer)).collect::<String>();
    let svg = format!(
        "<svg {} role=\"group\" tabindex=\"0\" aria-label=\"{}\">{layers}\
         <g class=\"spots\">{}</g></svg>",
        frame(size),
        shown::html(name),
        spots.iter().map(spot).collect::<String>()
    );
    Inlined { svg, colours: printer.colours.unwrap_or_default() }
}

/// The attributes that both have. Only what says so is filled.
fn frame((width, height): CanvasPoint) -> String {
    format!(
        "viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-size=\"{BODY}\" fill=\"none\""
    )
}

/// Prints shapes.
#[derive(Default)]
struct Printer {
    /// In a page, the colours so far.
    colours: Option<BTreeSet<Colour>>,
}

impl Printer {
    /// The shapes of a layer, grouped if they have keys.
    fn layer(&mut self, Layer { keys, shapes }: &Layer) -> String {
        let drawn = self.shapes(shapes);
        if keys.is_empty() || drawn.is_empty() {
            return drawn;
        }
        let keys = keys.iter().collect::<BTreeSet<_>>().into_iter();
        let keys = keys.map(|key| shown::html(key)).collect::<Vec<_>>().join(" ");
        format!("<g data-keys=\"{keys}\">{drawn}</g>")
    }

    fn shapes<'s>(&mut self, shapes: impl IntoIterator<Item = &'s PlotShape>) -> String {
        let elements = shapes.into_iter().map(|shape| self.element(shape)).collect::<Vec<_>>();
        let alike = |a: &Element, b: &Element| (a.tag, &a.look) == (b.tag, &b.look);
        let mut svg = String::new();
        for run in elements.chunk_by(alike) {
            let Element { tag, look, joins, .. } = &run[0];
            let bodies = run.iter().map(|element| &*element.body);
            svg += &match run {
                _ if *joins => format!("<path{look} d=\"{}\"/>", bodies.collect::<String>()),
                [one] => format!("<{tag}{look}{}", one.body),
                _ => {
                    let bodies = bodies.map(|body| format!("<{tag}{body}"));
                    format!("<g{look}>{}</g>", bodies.collect::<String>())
                }
            };
        }
        svg
    }

    fn element(&mut self, shape: &PlotShape) -> Element {
        match shape {
            PlotShape::Text { at, text, size, anchor, ink } => Element {
                tag: "text",
                look: self.text(*size, *anchor, *ink),
                body: format!(
                    " x=\"{}\" y=\"{}\">{}</text>",
                    short(at.0),
                    short(at.1),
                    shown::html(text)
                ),
                joins: false,
            },
            PlotShape::Path { points, closed, paint } => {
                let (look, way) = (self.paint(*paint), way(points, *closed));
                // In one path, others that overlap would look different.
                let joins = matches!(paint, Paint::Solid(_) | Paint::Line { .. });
                let body = if joins { way } else { format!(" d=\"{way}\"/>") };
                Element { tag: "path", look, body, joins }
            }
            PlotShape::Circle { at, r, paint } => {
                let [x, y, r] = [at.0, at.1, *r].map(short);
                let body = format!(" cx=\"{x}\" cy=\"{y}\" r=\"{r}\"/>");
                Element { tag: "circle", look: self.paint(*paint), body, joins: false }
            }
        }
    }

    fn text(&mut self, size: u32, anchor: Anchor, ink: Colour) -> String {
        // On a page, which may be dark, text in the colour of a curve would be too faint.
        let plain = self.colours.is_some() && ink != FAINT;
        let mut look = format!(" fill=\"{}\"", self.colour(if plain { INK } else { ink }));
        if size != BODY {
            look += &format!(" font-size=\"{size}\"");
        }
        look + match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        }
    }

    fn paint(&mut self, paint: Paint) -> String {
        match paint {
            Paint::Solid(ink) => format!(" fill=\"{}\"", self.colour(ink)),
            Paint::Tint(ink) => format!(" fill=\"{}\" fill-opacity=\"{TINT}\"", self.colour(ink)),
            Paint::Hollow(ink, width) => {
                format!(" fill=\"{}\"{}", self.colour(WHITE), self.stroke(ink, width))
            }
            Paint::Line { ink, width, dash } => {
                let dash = dash.map(|dash| {
                    let [dash, gap] = dash.map(short);
                    format!(" stroke-dasharray=\"{dash} {gap}\"")
                });
                self.stroke(ink, width) + &dash.unwrap_or_default()
            }
        }
    }

    fn stroke(&mut self, ink: Colour, width: f64) -> String {
        format!(" stroke=\"{}\" stroke-width=\"{}\"", self.colour(ink), short(width))
    }

    fn colour(&mut self, colour @ [r, g, b]: Colour) -> String {
        match &mut self.colours {
            None => format!("#{r:02x}{g:02x}{b:02x}"),
            Some(colours) => {
                colours.insert(colour);
                format!("var(--c-{r:02x}{g:02x}{b:02x})")
            }
        }
    }
}

/// A shape, printed in parts.
struct Element {
    tag: &'static str,
    /// The attributes that it may share with its neighbours.
    look: String,
    /// The others, and the rest of the element; or the way of a path alone.
    body: String,
    /// Whether one path can have the ways of this one and of its neighbours.
    joins: bool,
}

/// The way of a path: where it begins, and where each line leads.
fn way(points: &[CanvasPoint], closed: bool) -> String {
    let mut steps = String::new();
    let mut from = None::<(String, String)>;
    for (x, y) in points.iter().map(|&(x, y)| (short(x), short(y))) {
        steps += &match &from {
            None => format!("M{x} {y}"),
            Some((_, level)) if *level == y => format!("H{x}"),
            Some((upright, _)) if *upright == x => format!("V{y}"),
            Some(_) => format!("L{x} {y}"),
        };
        from = Some((x, y));
    }
    steps + if closed { "Z" } else { "" }
}

fn spot(TipSpot { corner, size, lines, key }: &TipSpot) -> String {
    let lines = lines.iter().map(|line| shown::html(line)).collect::<Vec<_>>().join("&#10;");
    format!(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" data-key=\"{}\" \
         data-tip=\"{lines}\"/>",
        short(corner.0),
        short(corner.1),
        short(size.0.max(4.0)),
        short(size.1),
        shown::html(key)
    )
}

/// A length in pixels with at most one decimal.
fn short(x: f64) -> String {
    let text = format!("{x:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}
