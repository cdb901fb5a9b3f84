//! Reads SVG figures: the bounding boxes of their texts and marks, and legibility faults.

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
    /// The points of a path.
    pub(crate) points: Vec<Place>,
}

type Place = (f64, f64);

impl Drawing {
    /// Reads what the printer writes: texts, circles and paths, in groups that have attributes
    /// for all in them. The rectangles are the background and what readers can point at.
    pub(crate) fn of(svg: &str) -> Self {
        let mut elements = Vec::new();
        let mut around = Vec::new();
        for tag in svg.split('<').skip(1) {
            match tag.split([' ', '>']).next().unwrap() {
                "svg" | "g" => around.push(tag),
                "/svg" | "/g" => drop(around.pop().unwrap()),
                "rect" | "/text" => {}
                kind => {
                    let get = |name: &str| {
                        let outer = || around.iter().rev().find_map(|tag| attribute(tag, name));
                        attribute(tag, name).or_else(outer)
                    };
                    elements.extend(read(kind, tag, get));
                }
            }
        }
        assert!(around.is_empty(), "not closed: {around:?}");
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
                let apart = element.bounds[0] - sample.bounds[0];
                if (0.0..30.0).contains(&apart) {
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
                // Two positions, each rounded to a tenth of a pixel, and the height of glyphs
                // that few texts have.
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

/// A text or a circle, or the parts of a path, whose attributes `get` knows.
fn read<'t>(kind: &str, tag: &str, get: impl Fn(&str) -> Option<&'t str>) -> Vec<Element> {
    let number = |name: &str| {
        let value = get(name).unwrap_or_else(|| panic!("no {name}: {tag}"));
        value.parse::<f64>().unwrap_or_else(|_| panic!("{name} = {value}: {tag}"))
    };
    let ink = ["stroke", "fill"].into_iter().filter_map(|name| get(name).filter(|c| *c != "none"));
    let colour = ink.take(1).collect::<String>();
    assert!(!colour.is_empty(), "not to be seen: {tag}");
    let element = |bounds, text, points| Element {
        bounds,
        text,
        size: number("font-size") as u32,
        colour: colour.clone(),
        points,
    };
    match kind {
        "text" => {
            let text = unescaped(tag.split_once('>').unwrap().1);
            let size = number("font-size");
            let wide = width(&text) * size;
            let left = number("x")
                - wide
                    * match get("text-anchor") {
                        None => 0.0,
                        Some("middle") => 0.5,
                        Some("end") => 1.0,
                        Some(other) => panic!("text-anchor {other}"),
                    };
            let (top, bottom) = (number("y") - 0.78 * size, number("y") + 0.24 * size);
            vec![element([left, top, left + wide, bottom], Some(text), Vec::new())]
        }
        "circle" => {
            let (x, y, r) = (number("cx"), number("cy"), number("r"));
            vec![element([x - r, y - r, x + r, y + r], None, Vec::new())]
        }
        "path" => {
            let parts = parts(get("d").unwrap()).into_iter();
            parts.map(|points| element(bounds(&points), None, points)).collect()
        }
        _ => panic!("unknown: {tag}"),
    }
}

fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let rest = tag.split_once(&format!(" {name}=\""))?.1;
    rest.split('"').next()
}

fn unescaped(text: &str) -> String {
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    entities.iter().fold(text.to_owned(), |text, (entity, c)| text.replace(entity, c))
}

/// The points of every part of a path.
fn parts(path: &str) -> Vec<Vec<Place>> {
    let mut parts = Vec::<Vec<Place>>::new();
    let mut rest = path;
    while let Some(command) = rest.chars().next() {
        let end = rest[1..].find(char::is_alphabetic).map_or(rest.len(), |at| at + 1);
        let numbers = rest[1..end].split_whitespace().map(|x| x.parse().unwrap());
        let numbers = numbers.collect::<Vec<f64>>();
        rest = &rest[end..];
        let from = parts.last().and_then(|part| part.last()).copied();
        let to = match (command, numbers.as_slice(), from) {
            ('M', &[x, y], _) => {
                parts.push(vec![(x, y)]);
                continue;
            }
            ('Z', [], Some(_)) => continue,
            ('L', &[x, y], Some(_)) => (x, y),
            ('H', &[x], Some((_, y))) | ('V', &[y], Some((x, _))) => (x, y),
            _ => panic!("{command}{numbers:?}: {path}"),
        };
        parts.last_mut().unwrap().push(to);
    }
    parts
}

fn bounds(points: &[Place]) -> Bounds {
    points.iter().fold([f64::MAX, f64::MAX, f64::MIN, f64::MIN], |[a, b, c, d], &(x, y)| {
        [a.min(x), b.min(y), c.max(x), d.max(y)]
    })
}

/// How wide a text is at a font size of 1, in DejaVu Sans. Other characters are at most as
/// wide as high.
fn width(text: &str) -> f64 {
    let advance = |c: char| ADVANCES.iter().find(|(_, chars)| chars.contains(c)).map(|(w, _)| *w);
    text.chars().map(|c| f64::from(advance(c).unwrap_or(2048))).sum::<f64>() / 2048.0
}

/// Characters by their advance in DejaVu Sans 2.37, in 2048ths of the font size: read from the
/// font for this test, so that the table that the layout uses need not be trusted.
#[rustfmt::skip]
const ADVANCES: [(u16, &str); 52] = [
    (563, "'"), (569, "ijl"), (604, "IJ"), (651, " ,."), (690, "/:;\\|"), (721, "f"), (739, "-"),
    (799, "()[]"), (803, "t"), (821, "!"), (842, "r"), (942, "\""), (1024, "*_`"), (1067, "s"),
    (1075, "z"), (1087, "?"), (1126, "c"), (1141, "L"), (1178, "F"), (1186, "k"), (1212, "vxy"),
    (1233, "τ"), (1235, "P"), (1251, "TY"), (1253, "o"), (1255, "a"), (1260, "e"), (1294, "EΣ"),
    (1298, "hnu"), (1300, "Sbdgpq"), (1303, "$0123456789{}"), (1343, "K"), (1350, "α"),
    (1401, "AV"), (1403, "XZ"), (1405, "B"), (1423, "R"), (1430, "C"), (1499, "U"), (1532, "N"),
    (1540, "H"), (1577, "D"), (1587, "G"), (1597, "&"), (1612, "OQ"), (1675, "w"),
    (1716, "#+<=>^~×÷"), (1767, "M"), (1946, "%"), (1995, "m"), (2025, "W"), (2048, "@…"),
];
