//! Describes figures as data and renders them.
//!
//! A [`Page`] describes what a figure shows: a title, a legend, and panels of curves or rows
//! of values. It contains no pixels, and this module knows nothing of speculative decoding.
//! [`Page::draw`] lays the figure out on a canvas of fixed width that grows downwards as
//! needed, so that nothing is clipped and no two texts overlap, and prints it as SVG.
//! [`Page::inline`] lays it out for a web page, where readers can point at values.

mod axis;
mod canvas;
mod dark;
mod grid;
mod labels;
mod legend;
mod page;
mod rows;
mod shape;
mod style;
mod svg;
mod text;
mod tips;

pub(crate) use axis::{Axis, reach};
pub(crate) use dark::dark;
pub(crate) use grid::{Curve, Even, Grid, Panel, Point};
pub(crate) use legend::{LegendEntry, LegendSample};
pub(crate) use page::{Body, Page};
pub(crate) use rows::{Column, Group, PlotValue, Row, Rows};
pub(crate) use style::{Colour, HUES, NEUTRAL, NOTHING, PARTS, Style, distinct, hue, ramp};
pub(crate) use svg::Inlined;
pub(crate) use text::broken;

/// The maximum number of panels of a figure; more cannot be compared at a glance.
pub(crate) const MOST_PANELS: usize = 12;
