//! Makes external text safe to display. Ids, categories, names, prompts and generated
//! text may contain any character; data files keep all of them.

/// Replaces a character that would have an effect instead of being displayed.
const HIDDEN: char = '\u{fffd}';

/// Whether a character controls a terminal or the direction of text, or is not allowed
/// in XML.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
}

/// The text on one line, control characters replaced.
pub fn line(text: &str) -> String {
    text.chars().map(|c| if acts(c) { HIDDEN } else { c }).collect()
}

/// The text with control characters replaced, except line breaks and tabs.
pub fn lines(text: &str) -> String {
    text.chars().map(|c| if acts(c) && !matches!(c, '\n' | '\t') { HIDDEN } else { c }).collect()
}

/// The text on one line of Markdown, in a table or a paragraph, escaped so that it is
/// rendered literally: it contains no markup, formula or HTML, and no link with a text
/// other than its own address.
pub fn markdown(text: &str) -> String {
    let text = line(text);
    let pairs = |mark| text.matches(mark).count() > 1;
    let (strikes, formulas) = (pairs('~'), pairs('$'));
    let mut escaped = String::new();
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied().unwrap_or(' ');
        let inside = before.is_alphanumeric() && next.is_alphanumeric();
        match c {
            '<' => escaped += "&lt;",
            '&' if next == '#' || next.is_ascii_alphabetic() => escaped += "&amp;",
            '\\' | '`' | '*' | '|' => escaped.extend(['\\', c]),
            '_' if !inside => escaped += "\\_",
            ']' if matches!(next, '(' | '[' | ':') => escaped += "\\]",
            '~' if strikes => escaped += "\\~",
            '$' if formulas => escaped += "\\$",
            _ => escaped.push(c),
        }
        before = c;
    }
    escaped
}

/// The same at the beginning of a line, where it must not start a heading, a quotation
/// or a list.
pub fn markdown_block(text: &str) -> String {
    let text = markdown(text.trim());
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let at = text.len() - rest.len();
    let marks: &[char] = if at == 0 { &['#', '>', '-', '+', '='] } else { &['.', ')'] };
    if rest.starts_with(marks) { format!("{}\\{rest}", &text[..at]) } else { text }
}

/// Text cells of CSV files, for `#[serde(with = "crate::shown::cell")]`. Spreadsheets
/// treat a cell that begins with `=`, `+`, `-` or `@` (or with a tab or a line break)
/// as a formula. Such a cell is written with an apostrophe in front, which reading
/// removes; so is a cell that begins with apostrophes followed by such a character.
pub mod cell {
    use serde::{Deserialize, Deserializer, Serializer};

    /// Whether a text, without leading apostrophes, begins like a formula.
    fn is_formula(text: &str) -> bool {
        text.trim_start_matches('\'').starts_with(['=', '+', '-', '@', '\t', '\r', '\n'])
    }

    /// The text as it is written to the file.
    pub fn guarded(text: &str) -> String {
        if is_formula(text) { format!("'{text}") } else { text.to_owned() }
    }

    /// The text that was written as this cell.
    pub fn original(cell: &str) -> &str {
        cell.strip_prefix('\'').filter(|_| is_formula(cell)).unwrap_or(cell)
    }

    /// Writes a text.
    ///
    /// # Errors
    /// As the serializer.
    pub fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&guarded(text))
    }

    /// Reads a text.
    ///
    /// # Errors
    /// As the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        Ok(original(&String::deserialize(deserializer)?).to_owned())
    }
}
