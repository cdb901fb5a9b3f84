//! Describes figures as data and renders them.
//!
//! A [`Page`] describes what a figure shows: a title, a legend, and panels of curves or rows
//! of values. It contains no pixels, and this module knows nothing of speculative decoding.
//! [`Page::draw`] lays the figure out on a canvas of fixed width that grows downwards as
//! needed, so that nothing is clipped and no two texts overlap; kuva renders the canvas as
//! SVG and PNG.

mod axis;
mod canvas;
mod grid;
mod labels;
mod page;
mod rows;
mod style;
mod text;

pub(crate) use axis::Axis;
pub use canvas::Drawn;
pub(crate) use grid::{Curve, Even, Grid, Panel, Point};
pub(crate) use page::{Body, LegendEntry, LegendSample, Page};
pub(crate) use rows::{Column, Group, PlotRow, PlotRows, PlotValue};
pub(crate) use style::{HUES, NEUTRAL, NOTHING, PARTS, Style, hue, ramp};
pub(crate) use text::broken;

/// The maximum number of panels of a figure; more cannot be compared at a glance.
pub(crate) const MOST_PANELS: usize = 12;
