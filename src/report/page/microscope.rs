//! The token microscope: the texts of some generations, with where their tokens come from.

use serde_json::Value;

use super::print;

/// The heading of its section.
pub(super) const HEADING: &str = "Token microscope";

/// What the microscope shows.
#[derive(Debug, Default)]
pub(in crate::report) struct Microscope {
    /// Its generations, as `microscope.js` reads them.
    pub(super) generations: Vec<Value>,
    /// The number of generations that there was no room for.
    left_out: usize,
}

impl Microscope {
    /// Its section, which the script fills.
    pub(super) fn print(&self) -> String {
        let mut text = print::begin(HEADING);
        if self.generations.is_empty() {
            return text + "<p>The run recorded no texts with rounds.</p>\n</section>\n";
        }
        text += include_str!("microscope.html");
        if self.left_out > 0 {
            text += &format!("<p>{} more generations are in the raw rows.</p>\n", self.left_out);
        }
        text + "</section>\n"
    }
}
