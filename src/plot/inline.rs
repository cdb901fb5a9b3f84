//! Drawings as parts of a web page: compact SVG whose colours are CSS variables, so that a
//! page can darken them, with the values that readers can point at.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::Range;

use kuva::render::color::Color;
use kuva::render::render::{Primitive, TextAnchor};

use super::style::{CanvasPoint, Colour, FAINT};
use crate::shown;

/// A drawing as a part of a page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Inlined {
    /// The element, in which colour `#rrggbb` is the variable `--c-rrggbb`.
    pub(crate) svg: String,
    /// The colours that occur in it.
    pub(crate) colours: BTreeSet<Colour>,
}

/// A value that readers can point at.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TipSpot {
    corner: CanvasPoint,
    size: CanvasPoint,
    /// What it says.
    lines: Vec<String>,
    key: String,
}

impl TipSpot {
    /// A square around a value. Empty lines are left out.
    pub(super) fn around(at: CanvasPoint, r: f64, lines: Vec<String>, key: &str) -> Self {
        Self::over((at.0 - r, at.1 - r), (2.0 * r, 2.0 * r), lines, key)
    }

    /// A box with this upper left corner and size. Empty lines are left out.
    pub(super) fn over(
        corner: CanvasPoint,
        size: CanvasPoint,
        mut lines: Vec<String>,
        key: &str,
    ) -> Self {
        lines.retain(|line| !line.is_empty());
        Self { corner, size, lines, key: key.to_owned() }
    }
}

/// Elements of a drawing that belong to keys: a page hides them if it hides all of these.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KeyedSpan {
    pub(super) elements: Range<usize>,
    pub(super) keys: Vec<String>,
}

/// A value with its name and interval, in words.
pub(super) fn measured(name: &str, value: f64, interval: Option<(f64, f64)>) -> String {
    let ends = interval.map(|(lo, hi)| format!(" [{}, {}]", exact(lo), exact(hi)));
    let colon = if name.is_empty() { "" } else { ": " };
    format!("{name}{colon}{}{}", exact(value), ends.unwrap_or_default())
}

/// A number with five significant digits, or all digits of a larger one.
pub(super) fn exact(value: f64) -> String {
    let digits = if value == 0.0 { 1 } else { value.abs().log10().floor() as i32 + 1 };
    let decimals = usize::try_from(5 - digits).unwrap_or(0).min(12);
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Inlined {
    /// The drawing with these elements; `size` is its width and height in pixels.
    pub(super) fn of(
        elements: &[Primitive],
        size: CanvasPoint,
        name: &str,
        spots: &[TipSpot],
        spans: &[KeyedSpan],
    ) -> Self {
        let mut ink = Ink::default();
        let mut svg = format!(
            "<svg viewBox=\"0 0 {} {}\" width=\"{0}\" height=\"{1}\" role=\"group\" \
             tabindex=\"0\" aria-label=\"{}\">",
            size.0,
            size.1,
            shown::html(name)
        );
        let begins = spans.iter().map(|span| (span.elements.start, span));
        let begins = begins.collect::<BTreeMap<_, _>>();
        let mut at = 0;
        while at < elements.len() {
            let span = begins.get(&at).filter(|span| !span.elements.is_empty());
            let next = begins.range(at + 1..).next().map_or(elements.len(), |(start, _)| *start);
            let end = span.map_or(next, |span| span.elements.end);
            let drawn = elements_of(&elements[at..end], &mut ink);
            match span {
                Some(span) => {
                    let keys = span.keys.iter().collect::<BTreeSet<_>>().into_iter();
                    let keys = keys.map(|key| shown::html(key)).collect::<Vec<_>>().join(" ");
                    let _ = write!(svg, "<g data-keys=\"{keys}\">{drawn}</g>");
                }
                None => svg += &drawn,
            }
            at = end;
        }
        svg += "<g class=\"spots\">";
        for TipSpot { corner, size, lines, key } in spots {
            let lines =
                lines.iter().map(|line| shown::html(line)).collect::<Vec<_>>().join("&#10;");
            let _ = write!(
                svg,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" data-key=\"{}\" \
                 data-tip=\"{lines}\"/>",
                short(corner.0),
                short(corner.1),
                short(size.0.max(4.0)),
                short(size.1),
                shown::html(key)
            );
        }
        Self { svg: svg + "</g></svg>", colours: ink.used }
    }
}

/// The colours of a drawing.
#[derive(Default)]
struct Ink {
    used: BTreeSet<Colour>,
}

impl Ink {
    /// The variable of a colour.
    fn variable(&mut self, color: &Color) -> String {
        match color {
            Color::Rgb(r, g, b) => {
                self.used.insert([*r, *g, *b]);
                format!("var(--c-{r:02x}{g:02x}{b:02x})")
            }
            other => other.to_svg_string(),
        }
    }
}

/// Elements as SVG. Lines of one colour and width that follow each other are one path.
fn elements_of(elements: &[Primitive], ink: &mut Ink) -> String {
    let mut svg = String::new();
    let mut open: Option<(String, f64)> = None;
    for element in elements {
        if let Primitive::PolyLine { points, stroke, stroke_width, .. } = element {
            let pen = (ink.variable(stroke), *stroke_width);
            if open.as_ref() != Some(&pen) {
                svg += if open.is_some() { "\"/>" } else { "" };
                let _ = write!(
                    svg,
                    "<path fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" d=\"",
                    pen.0, pen.1
                );
                open = Some(pen);
            }
            for (i, (x, y)) in points.iter().enumerate() {
                let to = if i == 0 { 'M' } else { 'L' };
                let _ = write!(svg, "{to}{} {}", short(*x), short(*y));
            }
            continue;
        }
        svg += if open.take().is_some() { "\"/>" } else { "" };
        element_of(element, ink, &mut svg);
    }
    svg + if open.is_some() { "\"/>" } else { "" }
}

/// An element that is not a line.
fn element_of(element: &Primitive, ink: &mut Ink, svg: &mut String) {
    let _ = match element {
        Primitive::Text { x, y, content, size, anchor, color, .. } => {
            let anchor = match anchor {
                TextAnchor::Start => "",
                TextAnchor::Middle => " class=\"m\"",
                TextAnchor::End => " class=\"e\"",
            };
            // Text in the colour of a curve would be too faint to read.
            let faint = matches!(color, Some(Color::Rgb(r, g, b)) if [*r, *g, *b] == FAINT);
            let fill = if faint { "var(--faint)" } else { "var(--ink)" };
            let text = shown::html(&content.replace("\\$", "$"));
            let (x, y) = (short(*x), short(*y));
            write!(
                svg,
                "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{fill}\"{anchor}>{text}</text>"
            )
        }
        Primitive::Rect { x, y, width, height, fill, .. } => {
            let [x, y, width, height] = [x, y, width, height].map(|side| short(*side));
            let fill = ink.variable(fill);
            write!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\"/>"
            )
        }
        Primitive::Circle { cx, cy, r, fill, stroke, stroke_width, .. } => {
            let fill = ink.variable(fill);
            let edge = stroke.as_ref().map(|stroke| {
                let width = stroke_width.unwrap_or(1.0);
                format!(" stroke=\"{}\" stroke-width=\"{width}\"", ink.variable(stroke))
            });
            let (cx, cy, edge) = (short(*cx), short(*cy), edge.unwrap_or_default());
            write!(svg, "<circle cx=\"{cx}\" cy=\"{cy}\" r=\"{r:.1}\" fill=\"{fill}\"{edge}/>")
        }
        Primitive::Path(path) => {
            let fill = path.fill.as_ref().map_or("none".to_owned(), |fill| ink.variable(fill));
            let opacity = path.opacity.map(|o| format!(" fill-opacity=\"{o}\""));
            let opacity = opacity.unwrap_or_default();
            write!(svg, "<path d=\"{}\" fill=\"{fill}\"{opacity}/>", path.d)
        }
        // The canvas draws nothing else.
        _ => Ok(()),
    };
}

/// A length in pixels with at most one decimal.
fn short(x: f64) -> String {
    let text = format!("{x:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}
