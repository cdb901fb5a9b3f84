//! Methods of Python's strings that minijinja lacks or defines otherwise.

use minijinja::value::{Kwargs, Tuple, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

/// The largest number that a method may be given: texts are padded to such widths.
const MOST_WIDTH: i64 = 10_000;

/// Calls a method of Python's strings, lists or maps.
pub(super) fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    let numbers = arguments.iter().filter_map(|argument| i64::try_from(argument.clone()).ok());
    let pattern = value.as_str().filter(|_| name == "format").unwrap_or_default();
    if numbers.chain(widths(pattern)).any(|number| number > MOST_WIDTH) {
        let why = format!("{name} is given a number above {MOST_WIDTH}");
        return Err(Error::new(ErrorKind::InvalidOperation, why));
    }
    match value.as_str() {
        Some(text) if value.kind() == ValueKind::String => match of_string(text, name, arguments) {
            Some(result) => result,
            None => pycompat::unknown_method_callback(state, value, name, arguments),
        },
        _ => pycompat::unknown_method_callback(state, value, name, arguments),
    }
}

/// The numbers in a pattern of `format`. One that is too long for an integer is the largest.
fn widths(pattern: &str) -> impl Iterator<Item = i64> + '_ {
    let parts = pattern.split(|c: char| !c.is_ascii_digit());
    parts.filter(|part| !part.is_empty()).map(|part| part.parse().unwrap_or(i64::MAX))
}

/// A method of a string; `None` for one that is left to others.
fn of_string(text: &str, name: &str, arguments: &[Value]) -> Option<Result<Value, Error>> {
    let one = || from_args::<(&str,)>(arguments).map(|(argument,)| argument);
    Some(match name {
        "strip" => stripped(text, arguments, true, true),
        "lstrip" => stripped(text, arguments, true, false),
        "rstrip" => stripped(text, arguments, false, true),
        "split" => split(text, arguments, false),
        "rsplit" => split(text, arguments, true),
        "title" => from_args::<()>(arguments).map(|()| title(text).into()),
        "splitlines" => splitlines(text, arguments),
        "removeprefix" => one().map(|part| text.strip_prefix(part).unwrap_or(text).into()),
        "removesuffix" => one().map(|part| text.strip_suffix(part).unwrap_or(text).into()),
        "partition" => one().map(|part| match text.split_once(part) {
            Some((before, after)) => triple(before, part, after),
            None => triple(text, "", ""),
        }),
        "rpartition" => one().map(|part| match text.rsplit_once(part) {
            Some((before, after)) => triple(before, part, after),
            None => triple("", "", text),
        }),
        _ => return None,
    })
}

fn triple(before: &str, part: &str, after: &str) -> Value {
    Value::from(Tuple::from([before, part, after].map(Value::from)))
}

/// What Python takes for white space.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// `strip`, `lstrip` and `rstrip`.
fn stripped(text: &str, arguments: &[Value], left: bool, right: bool) -> Result<Value, Error> {
    let (chars,) = from_args::<(Option<&str>,)>(arguments)?;
    Ok(Value::from(strip(text, chars, left, right)))
}

/// The filter `trim`.
pub(super) fn trim(text: &Value, chars: Option<&str>) -> Result<Value, Error> {
    match text.as_str() {
        Some(text) => Ok(Value::from(strip(text, chars, true, true))),
        None => Ok(Value::from(strip(&text.to_string(), chars, true, true))),
    }
}

fn strip<'a>(text: &'a str, chars: Option<&str>, left: bool, right: bool) -> &'a str {
    let goes = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if left { text.trim_start_matches(goes) } else { text };
    if right { text.trim_end_matches(goes) } else { text }
}

/// `split` and `rsplit`.
fn split(text: &str, arguments: &[Value], from_right: bool) -> Result<Value, Error> {
    let (separator, most, named) = from_args::<(Option<&str>, Option<i64>, Kwargs)>(arguments)?;
    let separator = separator.or(named.get("sep")?);
    let most = most.or(named.get("maxsplit")?).unwrap_or(-1);
    named.assert_all_used()?;
    let most = usize::try_from(most).unwrap_or(usize::MAX - 1);
    let parts = match separator {
        Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
        Some(separator) if from_right => {
            let mut parts = text.rsplitn(most + 1, separator).collect::<Vec<_>>();
            parts.reverse();
            parts
        }
        Some(separator) => text.splitn(most + 1, separator).collect(),
        None => words(text, most, from_right),
    };
    Ok(parts.into_iter().map(Value::from).collect())
}

/// The words of a text; after `most` splits the rest stays whole.
fn words(text: &str, most: usize, from_right: bool) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), strip(text, None, true, true));
    while !rest.is_empty() {
        let cut = if from_right { rest.rfind(is_space) } else { rest.find(is_space) };
        let Some(cut) = cut.filter(|_| parts.len() < most) else {
            parts.push(rest);
            break;
        };
        let (before, after) = rest.split_at(cut);
        let after = strip(after, None, true, false);
        let (part, left) = if from_right { (after, before) } else { (before, after) };
        parts.push(part);
        rest = if from_right { strip(left, None, false, true) } else { left };
    }
    if from_right {
        parts.reverse();
    }
    parts
}

/// `title`: every letter that follows no letter is in upper case, all others in lower case.
fn title(text: &str) -> String {
    let (mut titled, mut inside) = (String::with_capacity(text.len()), false);
    for c in text.chars() {
        if inside {
            titled.extend(c.to_lowercase());
        } else {
            titled.extend(c.to_uppercase());
        }
        inside = c.is_alphabetic();
    }
    titled
}

/// `splitlines`: Python ends lines at more characters than at line feeds.
fn splitlines(text: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (keep, named) = from_args::<(Option<bool>, Kwargs)>(arguments)?;
    let keep = keep.or(named.get("keepends")?).unwrap_or(false);
    named.assert_all_used()?;
    let (mut lines, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let end = rest.find(ends_line).unwrap_or(rest.len());
        let mark = match rest[end..].chars().next() {
            Some('\r') if rest[end..].starts_with("\r\n") => 2,
            Some(c) => c.len_utf8(),
            None => 0,
        };
        lines.push(Value::from(&rest[..if keep { end + mark } else { end }]));
        rest = &rest[end + mark..];
    }
    Ok(lines.into())
}

fn ends_line(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The test `iterable`.
pub(super) fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// The test `sequence`: in Python, strings and maps have items, too.
pub(super) fn is_sequence(value: &Value) -> bool {
    let kinds = [ValueKind::Undefined, ValueKind::String, ValueKind::Seq, ValueKind::Map];
    kinds.contains(&value.kind())
}

/// The test `number`, which in Python a truth value passes.
pub(super) fn is_number(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Number | ValueKind::Bool)
}
