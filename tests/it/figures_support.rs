//! Reads SVG figures: the bounding boxes of their texts and marks, and legibility faults.

use std::collections::HashMap;

use kuva::PngBackend;
use kuva::render::render::{Primitive, Scene, TextAnchor};

/// Left, top, right, bottom in pixels.
pub(crate) type Bounds = [f64; 4];

/// An SVG figure.
pub(crate) struct Drawing {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) elements: Vec<Element>,
}

/// A text, or ink of another kind.
pub(crate) struct Element {
    pub(crate) bounds: Bounds,
    /// The content of a text; none for other marks.
    pub(crate) text: Option<String>,
    pub(crate) size: u32,
    pub(crate) colour: String,
}

impl Drawing {
    /// Reads the renderer's output, which has one tag per element and no nesting.
    pub(crate) fn of(svg: &str) -> Self {
        let mut elements = Vec::new();
        let mut inks = HashMap::new();
        for tag in svg.split('<').skip(2) {
            let number = |name: &str| attribute(tag, name).and_then(|x| x.parse::<f64>().ok());
            let get = |name: &str| number(name).unwrap_or_else(|| panic!("no {name}: {tag}"));
            let kind = tag.split(' ').next().unwrap_or_default();
            let bounds = match kind {
                "text" => text_bounds(tag, &mut inks),
                "circle" => {
                    let (x, y, r) = (get("cx"), get("cy"), get("r"));
                    [x - r, y - r, x + r, y + r]
                }
                "rect" if number("x").is_some() => {
                    let (x, y) = (get("x"), get("y"));
                    [x, y, x + get("width"), y + get("height")]
                }
                "path" => path_bounds(attribute(tag, "d").unwrap()),
                _ => continue,
            };
            let text = (kind == "text").then(|| unescaped(tag.split_once('>').unwrap().1));
            let colour = match attribute(tag, "stroke").filter(|s| *s != "none") {
                Some(stroke) => stroke,
                None => attribute(tag, "fill").unwrap_or_default(),
            };
            let size = number("font-size").unwrap_or(0.0) as u32;
            elements.push(Element { bounds, text, size, colour: colour.to_owned() });
        }
        let of_root = |name| attribute(svg, name).unwrap().parse::<f64>().unwrap();
        Self { width: of_root("width"), height: of_root("height"), elements }
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.elements.iter().filter_map(|e| e.text.as_deref())
    }

    /// The titles of panels and of groups of rows.
    pub(crate) fn heads(&self) -> Vec<&str> {
        let heads = self.elements.iter().filter(|e| e.size == 12);
        heads.filter_map(|e| e.text.as_deref()).collect()
    }

    /// The entries of the legend as (label, colour): a dark text right after a mark.
    pub(crate) fn legend(&self) -> Vec<(&str, &str)> {
        let mut samples = None::<&Element>;
        let mut legend = Vec::new();
        for element in &self.elements {
            let Some(label) = &element.text else {
                samples = samples.or(Some(element));
                continue;
            };
            let dark = element.size == 11 && element.colour == "#1a1a1a";
            if let Some(sample) = samples.take().filter(|_| dark) {
                let beside = element.bounds[0] - sample.bounds[0];
                if (0.0..30.0).contains(&beside) {
                    legend.push((label.as_str(), sample.colour.as_str()));
                }
            }
        }
        legend
    }

    /// Elements off the canvas, texts that overlap, and figures that are too tall.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for element in &self.elements {
            let [left, top, right, bottom] = element.bounds;
            if left < 0.0 || top < 0.0 || right > self.width || bottom > self.height {
                let what = element.text.as_deref().unwrap_or("a mark");
                faults.push(format!("{what} is off the canvas: {:?}", element.bounds));
            }
        }
        let texts = self.elements.iter().filter_map(|e| Some((e.bounds, e.text.as_deref()?)));
        let texts = texts.collect::<Vec<_>>();
        for (i, (a, first)) in texts.iter().enumerate() {
            for (b, second) in &texts[i + 1..] {
                // The measurement itself may be off by half a pixel.
                let across = a[2].min(b[2]) - a[0].max(b[0]);
                let down = a[3].min(b[3]) - a[1].max(b[1]);
                if across > 0.5 && down > 0.5 {
                    faults.push(format!("{first} and {second} lie on each other: {a:?}, {b:?}"));
                }
            }
        }
        if self.height > MOST_HEIGHT {
            faults.push(format!("{} pixels tall", self.height));
        }
        faults
    }
}

/// The largest acceptable height: two screens.
const MOST_HEIGHT: f64 = 1600.0;

fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let rest = tag.split_once(&format!(" {name}=\""))?.1;
    rest.split('"').next()
}

fn unescaped(text: &str) -> String {
    let entities =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    entities.iter().fold(text.to_owned(), |text, (entity, c)| text.replace(entity, c))
}

fn path_bounds(d: &str) -> Bounds {
    let numbers = d.split_whitespace().filter_map(|part| part.parse::<f64>().ok());
    let numbers = numbers.collect::<Vec<_>>();
    let mut bounds = [f64::MAX, f64::MAX, f64::MIN, f64::MIN];
    for at in numbers.chunks(2) {
        bounds = [
            bounds[0].min(at[0]),
            bounds[1].min(at[1]),
            bounds[2].max(at[0]),
            bounds[3].max(at[1]),
        ];
    }
    bounds
}

fn text_bounds(tag: &str, inks: &mut HashMap<(String, u32), Bounds>) -> Bounds {
    let get = |name| attribute(tag, name).unwrap().parse::<f64>().unwrap();
    let (x, y, size) = (get("x"), get("y"), get("font-size") as u32);
    let text = unescaped(tag.split_once('>').unwrap().1);
    let key = (text, size);
    let [left, top, right, bottom] =
        *inks.entry(key).or_insert_with_key(|(text, size)| ink(text, *size));
    let shift = match attribute(tag, "text-anchor").unwrap() {
        "middle" => right / 2.0,
        "end" => right,
        _ => 0.0,
    };
    [x + left - shift, y + top, x + right - shift, y + bottom]
}

/// The pixels that a text covers, relative to its start on the baseline. The text is
/// rendered alone and measured, so that no table of character widths has to be trusted.
fn ink(text: &str, size: u32) -> Bounds {
    const SCALE: f64 = 2.0;
    const PAD: f64 = 8.0;
    let wide = 2.0 * PAD + f64::from(size) * 2.0 * text.chars().count() as f64;
    let (high, baseline) = (f64::from(size) * 3.0, f64::from(size) * 2.0);
    let mut scene = Scene::new(wide, high);
    scene.add(Primitive::Text {
        x: PAD,
        y: baseline,
        content: text.replace('$', "\\$"),
        size,
        anchor: TextAnchor::Start,
        rotate: None,
        bold: false,
        color: None,
    });
    let png = PngBackend::new().with_scale(SCALE as f32).render_scene(&scene).unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let samples = info.color_type.samples();
    let mut bounds = [0.0, 0.0, 0.0_f64, 0.0_f64];
    for (row, line) in pixels.chunks(info.line_size).enumerate() {
        for (column, pixel) in line.chunks(samples).enumerate() {
            if pixel[..3].iter().any(|&c| c < 200) {
                let x = column as f64 / SCALE - PAD;
                let y = row as f64 / SCALE - baseline;
                bounds = [
                    f64::min(bounds[0], x),
                    f64::min(bounds[1], y),
                    bounds[2].max(x + 1.0 / SCALE),
                    bounds[3].max(y + 1.0 / SCALE),
                ];
            }
        }
    }
    bounds
}
