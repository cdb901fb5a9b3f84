//! Running text: what the report itself says, and external text within it.

/// A piece of running text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::run::report) enum Inline {
    /// The report's own words.
    Ours(String),
    /// Names and reasons from outside.
    External(String),
    /// The report's own words in a fixed-width font.
    Code(String),
    /// The report's own words, which nobody should miss.
    Strong(String),
}

/// Running text, piece by piece.
pub(in crate::run::report) type Prose = Vec<Inline>;

/// The report's own words; what stands between backticks is code.
pub(in crate::run::report) fn ours(text: &str) -> Prose {
    let pieces = text.split('`').enumerate().filter(|(_, piece)| !piece.is_empty());
    let piece = |(i, piece): (usize, &str)| match i % 2 {
        0 => Inline::Ours(piece.to_owned()),
        _ => Inline::Code(piece.to_owned()),
    };
    pieces.map(piece).collect()
}

/// Text from outside.
pub(in crate::run::report) fn external(text: &str) -> Prose {
    vec![Inline::External(text.to_owned())]
}

/// A sentence that nobody should miss.
pub(in crate::run::report) fn strong(text: &str) -> Prose {
    vec![Inline::Strong(text.to_owned())]
}
