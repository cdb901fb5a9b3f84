//! Makes external text safe to display. Ids, categories, names, prompts and generated text
//! may contain any character; data files store them unchanged.

/// The replacement for characters that act instead of being displayed.
const HIDDEN: char = '\u{fffd}';

/// Whether a character controls a terminal or the direction of text, or is forbidden in
/// XML.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
}

/// The text on one line: replaces all control characters, including line breaks.
pub fn line(text: &str) -> String {
    text.chars().map(|c| if acts(c) { HIDDEN } else { c }).collect()
}

/// The text with line breaks and tabs: replaces all other control characters.
pub fn lines(text: &str) -> String {
    text.chars().map(|c| if acts(c) && !matches!(c, '\n' | '\t') { HIDDEN } else { c }).collect()
}

/// A count with its noun: "1 prompt", "2 prompts", "3 passes".
pub fn count(n: usize, thing: &str) -> String {
    let end = match n {
        1 => "",
        _ if thing.ends_with('s') => "es",
        _ => "s",
    };
    format!("{n} {thing}{end}")
}

/// A number with six significant digits, or all digits of a larger one, without closing zeros.
pub fn exact(value: f64) -> String {
    let digits = if value == 0.0 { 1 } else { value.abs().log10().floor() as i32 + 1 };
    let decimals = usize::try_from(6 - digits).unwrap_or(0).min(15);
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An e-value, given its log₁₀.
pub fn e_value(log10: f64) -> String {
    if log10 < 4.0 { format!("e = {:.1}", 10f64.powf(log10)) } else { format!("e = 10^{log10:.0}") }
}

/// The text on one line of Markdown, for a table or a paragraph. It is escaped so that it
/// renders literally, without markup, formulas or HTML; only bare addresses become links.
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

/// Like [`markdown`], for the beginning of a line: also escapes what would start a heading,
/// a quotation or a list.
pub fn markdown_block(text: &str) -> String {
    let text = markdown(text.trim());
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let at = text.len() - rest.len();
    let marks: &[char] = if at == 0 { &['#', '>', '-', '+', '='] } else { &['.', ')'] };
    if rest.starts_with(marks) { format!("{}\\{rest}", &text[..at]) } else { text }
}

/// The text in HTML, as the contents of an element or as the value of a quoted attribute: it
/// renders literally. Line breaks and tabs stay.
pub fn html(text: &str) -> String {
    let mut escaped = String::new();
    for c in lines(text).chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Text cells of CSV files, for `#[serde(with = "crate::io::shown::cell")]`. Spreadsheets treat a cell
/// that begins with `=`, `+`, `-` or `@` (or with a tab or a line break) as a formula. Such a cell,
/// even after leading apostrophes, is written with an additional apostrophe in front; reading
/// removes it.
pub mod cell {
    use serde::{Deserialize, Deserializer, Serializer};

    /// Whether a text begins like a formula after any leading apostrophes.
    fn is_formula(text: &str) -> bool {
        text.trim_start_matches('\'').starts_with(['=', '+', '-', '@', '\t', '\r', '\n'])
    }

    /// The cell that encodes a text.
    pub fn guarded(text: &str) -> String {
        if is_formula(text) { format!("'{text}") } else { text.to_owned() }
    }

    /// The text that a cell encodes.
    pub fn original(cell: &str) -> &str {
        cell.strip_prefix('\'').filter(|_| is_formula(cell)).unwrap_or(cell)
    }

    /// Writes a text.
    ///
    /// # Errors
    /// If the serializer fails.
    pub fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&guarded(text))
    }

    /// Reads a text.
    ///
    /// # Errors
    /// If the deserializer fails.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        Ok(original(&String::deserialize(deserializer)?).to_owned())
    }
}
