//! A figure from top to bottom: title, notes, legend, body.

use super::canvas::{Anchor, BODY, Canvas, FAINT, INK, MARGIN, TITLE, WIDTH};
use super::grid::Grid;
use super::legend::{LegendEntry, LegendSample};
use super::rows::Rows;
use super::style::LOSS;
use super::svg::Inlined;
use super::text::{width, wrap};

/// A figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Page {
    pub(crate) title: String,
    /// Sentences that readers need, such as what was left out.
    pub(crate) notes: Vec<String>,
    /// Entries only for what differs within the figure.
    pub(crate) legend: Vec<LegendEntry>,
    pub(crate) body: Body,
}

/// The body of a figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    Grid(Grid),
    Rows(Rows),
}

/// Width of the sample of an entry, gap between entries, and height of a line, in pixels.
const SAMPLE: f64 = 24.0;
const APART: f64 = 18.0;
const LINE: f64 = 18.0;

impl Page {
    /// Lays the figure out and prints it as an SVG file.
    pub(crate) fn draw(&self) -> String {
        let mut canvas = Canvas::new(WIDTH);
        let height = self.put(&mut canvas);
        canvas.file(height)
    }

    /// Lays the figure out as a part of a page, `width` pixels wide.
    pub(crate) fn inline(&self, width: f64) -> Inlined {
        let mut canvas = Canvas::new(width);
        let height = self.put(&mut canvas);
        canvas.inline(height, &self.title)
    }

    /// Puts the figure on a canvas; returns its height in pixels.
    fn put(&self, canvas: &mut Canvas) -> f64 {
        let mut at = MARGIN;
        let room = canvas.width - 2.0 * MARGIN;
        for line in wrap(&self.title, TITLE, room, 2) {
            at += f64::from(TITLE) * 1.3;
            canvas.text((MARGIN, at - 4.0), &line, TITLE, Anchor::Start, INK);
        }
        for line in self.notes.iter().flat_map(|note| wrap(note, BODY, room, 4)) {
            at += 15.0;
            canvas.text((MARGIN, at), &line, BODY, Anchor::Start, FAINT);
        }
        at = self.legend(canvas, at + 6.0);
        let bottom = match &self.body {
            Body::Grid(grid) => grid.draw(canvas, at + 6.0, &self.legend),
            Body::Rows(rows) => rows.draw(canvas, at + 6.0, &self.legend),
        };
        bottom + MARGIN
    }

    /// Draws the entries from left to right in as many lines as needed; returns where they
    /// end, in pixels.
    fn legend(&self, canvas: &mut Canvas, top: f64) -> f64 {
        let (mut x, mut y) = (MARGIN, top);
        for (i, key) in self.legend.iter().enumerate() {
            let label = wrap(&key.label, BODY, canvas.width - 2.0 * MARGIN - SAMPLE, 1).concat();
            let wide = SAMPLE + width(&label, BODY);
            if i > 0 && x + wide > canvas.width - MARGIN {
                (x, y) = (MARGIN, y + LINE);
            }
            sample(canvas, key.sample, (x, y + LINE / 2.0));
            canvas.text((x + SAMPLE, y + LINE / 2.0 + 4.0), &label, BODY, Anchor::Start, INK);
            x += wide + APART;
        }
        if self.legend.is_empty() { top } else { y + LINE }
    }
}

/// Draws the sample of an entry; `at` is the middle of its left edge.
fn sample(canvas: &mut Canvas, sample: LegendSample, at: (f64, f64)) {
    let end = (at.0 + SAMPLE - 6.0, at.1);
    let middle = (at.0 + (SAMPLE - 6.0) / 2.0, at.1);
    match sample {
        LegendSample::Curve(style) => {
            canvas.line(&[at, end], style.colour, 1.8);
            canvas.mark(middle, style);
        }
        LegendSample::Predicted => canvas.predicted(&[at, end], FAINT),
        LegendSample::Hollow => canvas.hollow(middle, FAINT),
        LegendSample::Part(colour) => canvas.rect((at.0 + 3.0, at.1 - 5.0), 12.0, 10.0, colour),
        LegendSample::Loss => {
            canvas.rect((at.0, at.1 - 4.0), SAMPLE - 6.0, 9.0, LOSS);
            canvas.reference((at.0, at.1 - 4.0), (end.0, at.1 - 4.0));
        }
    }
}
