//! Labels next to points: placed where they cover nothing, or left out.

use super::canvas::{Anchor, Canvas, CanvasPoint};
use super::style::Colour;
use super::text::width;

const SIZE: u32 = 10;
/// Distance in pixels from the centre of a point to its label.
const OFF: f64 = 6.0;

/// The area for labels, and the boxes within it that they must not touch.
pub(super) struct Labels {
    corner: CanvasPoint,
    far: CanvasPoint,
    taken: Vec<(CanvasPoint, CanvasPoint)>,
}

impl Labels {
    pub(super) fn within(corner: CanvasPoint, width: f64, height: f64) -> Self {
        Self { corner, far: (corner.0 + width, corner.1 + height), taken: Vec::new() }
    }

    /// Keeps labels out of the box with this upper left and lower right corner.
    pub(super) fn avoid(&mut self, corner: CanvasPoint, far: CanvasPoint) {
        self.taken.push((corner, far));
    }

    /// Keeps labels off a line.
    pub(super) fn avoid_line(&mut self, from: CanvasPoint, to: CanvasPoint) {
        let pieces = ((to.0 - from.0).hypot(to.1 - from.1) / 4.0).ceil().max(1.0);
        for i in 0..=pieces as usize {
            let part = i as f64 / pieces;
            let (x, y) = (from.0 + part * (to.0 - from.0), from.1 + part * (to.1 - from.1));
            self.avoid((x - 1.0, y - 1.0), (x + 1.0, y + 1.0));
        }
    }

    /// Writes a label to the right or left of a point, or at one of its corners: the first place
    /// that is free. Leaves it out if none is.
    pub(super) fn put(&mut self, canvas: &mut Canvas, at: CanvasPoint, text: &str, ink: Colour) {
        let (wide, high) = (width(text, SIZE), f64::from(SIZE));
        let corners = [
            (at.0 + OFF, at.1 - high / 2.0),
            (at.0 - OFF - wide, at.1 - high / 2.0),
            (at.0 + OFF * 0.7, at.1 - OFF * 0.7 - high),
            (at.0 + OFF * 0.7, at.1 + OFF * 0.7),
            (at.0 - OFF * 0.7 - wide, at.1 - OFF * 0.7 - high),
            (at.0 - OFF * 0.7 - wide, at.1 + OFF * 0.7),
        ];
        let far = |c: CanvasPoint| (c.0 + wide, c.1 + high);
        let free = corners.into_iter().find(|&corner| self.free(corner, far(corner)));
        if let Some(corner) = free {
            self.avoid(corner, far(corner));
            canvas.text((corner.0, corner.1 + high - 1.5), text, SIZE, Anchor::Start, ink);
        }
    }

    fn free(&self, corner: CanvasPoint, far: CanvasPoint) -> bool {
        let inside = corner.0 >= self.corner.0
            && corner.1 >= self.corner.1
            && far.0 <= self.far.0
            && far.1 <= self.far.1;
        let touches = |&(a, b): &(CanvasPoint, CanvasPoint)| {
            corner.0 < b.0 && a.0 < far.0 && corner.1 < b.1 && a.1 < far.1
        };
        inside && !self.taken.iter().any(touches)
    }
}
