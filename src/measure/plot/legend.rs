//! The entries of a figure's legend.

use super::style::{Colour, Style};

/// An entry of a legend.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LegendEntry {
    pub(crate) label: String,
    pub(crate) sample: LegendSample,
}

/// The sample that a legend entry explains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum LegendSample {
    /// A line with markers.
    Curve(Style),
    Predicted,
    Hollow,
    Part(Colour),
    /// A reference line and the area of losses below it.
    Loss,
}

impl LegendEntry {
    pub(crate) fn new(label: impl Into<String>, sample: LegendSample) -> Self {
        Self { label: label.into(), sample }
    }
}

/// The label of a sample; empty if the legend does not have it.
pub(super) fn label(legend: &[LegendEntry], sample: LegendSample) -> &str {
    legend.iter().find(|entry| entry.sample == sample).map_or("", |entry| &entry.label)
}
