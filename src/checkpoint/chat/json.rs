//! The filter `tojson`, as `transformers` defines it: Python's `json.dumps`.

use std::fmt::Write;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

/// How deep lists and maps may be nested.
const DEEPEST: usize = 200;

/// The layout of the text.
struct JsonLayout {
    /// Whether characters beyond ASCII are written as `\uXXXX`.
    ascii: bool,
    indent: Option<String>,
    between: String,
    after_key: String,
    sort_keys: bool,
}

/// `value | tojson(ensure_ascii, indent, separators, sort_keys)`. Unlike Jinja's own filter
/// it escapes nothing for HTML.
pub(super) fn tojson(
    value: &Value,
    ensure_ascii: Option<bool>,
    indent: Option<Value>,
    separators: Option<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let ascii = ensure_ascii.or(named.get("ensure_ascii")?).unwrap_or(false);
    let indent = indent_of(indent.or(named.get("indent")?))?;
    let separators = separators.or(named.get("separators")?).filter(|value| !value.is_none());
    let sort_keys = named.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    named.assert_all_used()?;
    let (between, after_key) = match separators {
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
        Some(pair) => {
            let parts = pair.try_iter()?.map(|part| part.as_str().map(str::to_owned));
            match &*parts.collect::<Vec<_>>() {
                [Some(between), Some(after_key)] => (between.clone(), after_key.clone()),
                _ => return Err(refuse("tojson: separators are two strings")),
            }
        }
    };
    let layout = JsonLayout { ascii, indent, between, after_key, sort_keys };
    let mut text = String::new();
    layout.write(value, 0, &mut text)?;
    Ok(Value::from(text))
}

/// What a level is indented by: a number of spaces or a string.
fn indent_of(value: Option<Value>) -> Result<Option<String>, Error> {
    const MOST: usize = 100;
    let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(None) };
    match (value.as_str(), value.as_usize()) {
        (Some(text), _) if text.len() <= MOST => Ok(Some(text.to_owned())),
        (None, Some(spaces)) if spaces <= MOST => Ok(Some(" ".repeat(spaces))),
        _ => Err(refuse(format!(
            "tojson: indent is a number from 0 to {MOST} or a string of as many bytes"
        ))),
    }
}

impl JsonLayout {
    fn write(&self, value: &Value, depth: usize, text: &mut String) -> Result<(), Error> {
        if depth > DEEPEST {
            return Err(refuse(format!("tojson: nested deeper than {DEEPEST} levels")));
        }
        match value.kind() {
            ValueKind::None => text.push_str("null"),
            ValueKind::Bool => text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => _ = write!(text, "{value}"),
            ValueKind::Number => text.push_str(&python_float(f64::try_from(value.clone())?)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), text),
            ValueKind::Seq => {
                let items = value.try_iter()?.collect::<Vec<_>>();
                self.list(('[', ']'), items, depth, text, |item, text| {
                    self.write(&item, depth + 1, text)
                })?;
            }
            ValueKind::Map => {
                let mut keys = value.try_iter()?.collect::<Vec<_>>();
                if self.sort_keys {
                    keys.sort();
                }
                self.list(('{', '}'), keys, depth, text, |key, text| {
                    self.string(&self.key_text(&key)?, text);
                    text.push_str(&self.after_key);
                    self.write(&value.get_item(&key)?, depth + 1, text)
                })?;
            }
            kind => return Err(refuse(format!("tojson: no JSON stands for this {kind}"))),
        }
        Ok(())
    }

    /// Writes what stands between two brackets, each item by `write`.
    fn list(
        &self,
        (open, close): (char, char),
        items: Vec<Value>,
        depth: usize,
        text: &mut String,
        mut write: impl FnMut(Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        text.push(open);
        let empty = items.is_empty();
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                text.push_str(&self.between);
            }
            self.line(depth + 1, text);
            write(item, text)?;
        }
        if !empty {
            self.line(depth, text);
        }
        text.push(close);
        Ok(())
    }

    /// Begins a line, if values have lines of their own.
    fn line(&self, depth: usize, text: &mut String) {
        if let Some(indent) = &self.indent {
            text.push('\n');
            text.extend(std::iter::repeat_n(indent.as_str(), depth));
        }
    }

    /// A key of a map as JSON has it.
    fn key_text(&self, key: &Value) -> Result<String, Error> {
        let mut text = String::new();
        match key.kind() {
            ValueKind::String => text.push_str(key.as_str().unwrap_or_default()),
            ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                self.write(key, 0, &mut text)?
            }
            kind => return Err(refuse(format!("tojson: a key cannot be a {kind}"))),
        }
        Ok(text)
    }

    fn string(&self, value: &str, text: &mut String) {
        for c in serde_json::Value::from(value).to_string().chars() {
            if self.ascii && c > '~' {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    _ = write!(text, "\\u{unit:04x}");
                }
            } else {
                text.push(c);
            }
        }
    }
}

/// A number as Python writes it: the shortest digits that give it back, with an exponent
/// below 1e-4 and from 1e16 on.
pub(super) fn python_float(x: f64) -> String {
    if x.is_nan() {
        return "NaN".to_owned();
    }
    if x.is_infinite() {
        return if x > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{x:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent = exponent.parse::<i32>().unwrap_or_default();
    if x == 0.0 || (-4..16).contains(&exponent) {
        return format!("{x:?}").replace("e0", "");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn refuse(why: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}
