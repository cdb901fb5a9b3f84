//! What drawings consist of.

use super::style::{CanvasPoint, Colour};

/// An element of a drawing.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PlotShape {
    /// A line of text; `at` lies on its baseline.
    Text { at: CanvasPoint, text: String, size: u32, anchor: Anchor, ink: Colour },
    /// Straight lines from point to point, and back to the first if the path is closed.
    Path { points: Vec<CanvasPoint>, closed: bool, paint: Paint },
    /// A circle around `at`.
    Circle { at: CanvasPoint, r: f64, paint: Paint },
}

/// Which part of a text lies at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a path or a circle is painted; widths and dashes are in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Paint {
    /// An area of one colour.
    Solid(Colour),
    /// The same, but so light that lines below it stay visible.
    Tint(Colour),
    /// A line of this width around the colour of the background.
    Hollow(Colour, f64),
    /// A line, with the lengths of its dashes and of the gaps between them.
    Line { ink: Colour, width: f64, dash: Option<[f64; 2]> },
}

/// Shapes that belong to the same keys: a page hides them if it hides all of these. Shapes
/// without keys always stay.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Layer {
    pub(super) keys: Vec<String>,
    pub(super) shapes: Vec<PlotShape>,
}
