//! Checks that a string is well-formed XML, as far as figures need it: elements, attributes, text
//! and comments, but no declarations.

/// Whether XML 1.0 allows a character.
fn allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Whether a string contains no markup, and every `&` in it begins a reference.
fn is_text(text: &str) -> bool {
    let reference = |rest: &str| {
        let name = rest.split_once(';').map_or("", |(name, _)| name);
        ["lt", "gt", "amp", "quot", "apos"].contains(&name)
            || name.strip_prefix('#').is_some_and(|n| n.parse::<u32>().is_ok())
    };
    !text.contains(['<', '>']) && text.split('&').skip(1).all(reference)
}

/// Whether the inside of a tag is a name followed by attributes with quoted values.
fn is_tag(tag: &str) -> bool {
    let name = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_:".contains(c))
    };
    let (head, mut rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
    let mut seen = Vec::new();
    while !rest.trim().is_empty() {
        let Some((key, after)) = rest.trim_start().split_once("=\"") else { return false };
        let Some((value, after)) = after.split_once('"') else { return false };
        if !name(key) || !is_text(value) || seen.contains(&key) {
            return false;
        }
        seen.push(key);
        rest = after;
    }
    name(head)
}

/// Reports what is wrong, if anything.
pub(crate) fn well_formed(xml: &str) -> Result<(), String> {
    if let Some(c) = xml.chars().find(|&c| !allowed(c)) {
        return Err(format!("{c:?} is no character of XML"));
    }
    let mut open = Vec::new();
    let mut parts = xml.trim().split('<');
    if parts.next() != Some("") {
        return Err("text before the root".to_owned());
    }
    let mut roots = 0;
    for part in parts {
        let (tag, text) = part.split_once('>').ok_or_else(|| format!("no end of <{part}"))?;
        if tag.starts_with("!--") && tag.ends_with("--") {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            let begun = open.pop();
            if begun != Some(name) {
                return Err(format!("</{name}> ends {begun:?}"));
            }
        } else {
            let (own, alone) = (tag.trim_end_matches('/').trim_end(), tag.ends_with('/'));
            if !is_tag(own) {
                return Err(format!("<{tag}> is no tag"));
            }
            roots += usize::from(open.is_empty());
            if !alone {
                open.push(own.split_whitespace().next().unwrap_or_default());
            }
        }
        if !is_text(text) || (open.is_empty() && !text.trim().is_empty()) {
            return Err(format!("{text:?} is no text"));
        }
    }
    if open.is_empty() && roots == 1 { Ok(()) } else { Err(format!("not one root: {open:?}")) }
}

#[test]
fn the_check_accepts_well_formed_xml_and_rejects_malformed_xml() {
    for good in ["<a/>", "<a b=\"1\"><c>x &lt; y</c></a>", "<a>\u{fffd}</a>"] {
        assert_eq!(well_formed(good), Ok(()), "{good}");
    }
    for bad in
        ["<a>", "<a></b>", "<a>&</a>", "<a b=1/>", "<a b=\"<\"/>", "<a>\u{1}</a>", "<a/><b/>"]
    {
        assert!(well_formed(bad).is_err(), "{bad}");
    }
}
