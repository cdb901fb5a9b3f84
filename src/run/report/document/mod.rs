//! The report as a document: blocks of text, tables and figures, which `report.md` and
//! `report.html` print alike.

mod cell;
mod markdown;
mod prose;

pub(super) use cell::{TableCell, Tone};
pub(super) use markdown::print;
pub(super) use prose::{Inline, Prose, external, ours, strong};

use crate::measure::plot::Inlined;

/// A part of the document that stands on lines of its own.
#[derive(Debug)]
pub(super) enum DocBlock {
    /// The name of the experiment.
    Title(String),
    Question(String),
    Heading(&'static str),
    Paragraph(Prose),
    List(Vec<Prose>),
    Table(DocTable),
    Figure(DocFigure),
}

/// A table.
#[derive(Debug)]
pub(super) struct DocTable {
    pub(super) columns: Vec<DocColumn>,
    pub(super) rows: Vec<Vec<TableCell>>,
}

/// The head of a column.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DocColumn {
    pub(super) name: String,
    /// Whether the column holds numbers, which are aligned to the right.
    pub(super) numbers: bool,
}

/// A figure.
#[derive(Debug)]
pub(super) struct DocFigure {
    /// Its file name without the extension.
    pub(super) name: String,
    pub(super) caption: Prose,
    /// The drawing for a page.
    pub(super) wide: Inlined,
    /// The same, for a narrow one.
    pub(super) narrow: Inlined,
}

impl DocBlock {
    /// A table. Columns whose heading ends with `:` hold numbers.
    pub(super) fn table(head: &[&str], rows: Vec<Vec<TableCell>>) -> Self {
        let column = |head: &&str| match head.strip_suffix(':') {
            Some(name) => DocColumn { name: name.to_owned(), numbers: true },
            None => DocColumn { name: (*head).to_owned(), numbers: false },
        };
        Self::Table(DocTable { columns: head.iter().map(column).collect(), rows })
    }

    /// A section with a paragraph and a table; nothing without rows.
    pub(super) fn section(
        heading: &'static str,
        words: &str,
        head: &[&str],
        rows: Vec<Vec<TableCell>>,
    ) -> Vec<Self> {
        if rows.is_empty() {
            return Vec::new();
        }
        vec![Self::Heading(heading), Self::paragraph(words), Self::table(head, rows)]
    }

    /// A paragraph of the report's own words.
    pub(super) fn paragraph(text: &str) -> Self {
        Self::Paragraph(ours(text))
    }
}
