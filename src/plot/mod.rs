//! Figures as data, and what prints them.
//!
//! A [`Page`] says what a figure shows: a title, a legend, and panels of curves or
//! rows of values. Nothing in it is measured in pixels, and nothing here knows of
//! speculative decoding. [`Page::draw`] lays it out on a canvas of a fixed width
//! that grows downwards until everything has its place, so that nothing is clipped
//! and no text lies on another; kuva turns the canvas into SVG and PNG.

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
pub(crate) use page::{Body, Key, Page, Sample};
pub(crate) use rows::{Column, Group, Row, Rows, Value};
pub(crate) use style::{HUES, NEUTRAL, NOTHING, PARTS, Style, hue, ramp};
pub(crate) use text::broken;

/// The most panels a figure has; more cannot be taken in at a glance.
pub(crate) const MOST_PANELS: usize = 12;
