//! The values that readers of a page can point at, in words.

use super::style::CanvasPoint;
use crate::io::shown::exact;

/// A value that readers can point at.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TipSpot {
    pub(super) corner: CanvasPoint,
    pub(super) size: CanvasPoint,
    pub(super) lines: Vec<String>,
    pub(super) key: String,
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

/// A value with its name and interval, in words.
pub(super) fn measured(name: &str, value: f64, interval: Option<(f64, f64)>) -> String {
    let ends = interval.map(|(lo, hi)| format!(" [{}, {}]", exact(lo), exact(hi)));
    let colon = if name.is_empty() { "" } else { ": " };
    format!("{name}{colon}{}{}", exact(value), ends.unwrap_or_default())
}

pub(super) fn predicted(value: f64) -> String {
    format!("predicted: {}", exact(value))
}
