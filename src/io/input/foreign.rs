//! What other programs write into JSON files although JSON lacks it.

use serde::de::IgnoredAny;

/// The mark with which some editors begin a text in UTF-8.
const MARK: &[u8] = "\u{feff}".as_bytes();
/// The numbers that Python's `json` writes and reads.
const NUMBERS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// What makes a text no JSON, if it is a byte order mark or a number of Python's.
pub(crate) fn foreign(json: &[u8]) -> Option<String> {
    if json.starts_with(MARK) {
        return Some(
            "it begins with a byte order mark (BOM): save it as UTF-8 without one".to_owned(),
        );
    }
    let error = serde_json::from_slice::<IgnoredAny>(json).err()?;
    let line = json.split(|&byte| byte == b'\n').nth(error.line().checked_sub(1)?)?;
    // The column is near the number's first character, which may be a sign.
    let near = &line[error.column().saturating_sub(4).min(line.len())..];
    let is_near = |name: &&&str| near.windows(name.len()).take(5).any(|at| at == name.as_bytes());
    let name = NUMBERS.iter().rev().find(is_near)?;
    Some(format!(
        "{name} in line {} is no number of JSON: write a finite number, or remove the key",
        error.line()
    ))
}
