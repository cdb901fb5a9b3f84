//! How vocabularies write bytes in the names of tokens.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::model::Spelling;

/// How SentencePiece writes a space.
pub(super) const SPACE: &str = "\u{2581}";

/// The byte that a character stands for in byte-level BPE. Visible characters of Latin-1
/// stand for themselves, the 68 other bytes are written as the characters from U+0100.
pub(super) static BYTES: LazyLock<HashMap<char, u8>> = LazyLock::new(|| {
    let visible = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let themselves = (0..=u8::MAX).filter(visible).map(|byte| (char::from(byte), byte));
    let others = ('\u{100}'..).zip((0..=u8::MAX).filter(|byte| !visible(byte)));
    themselves.chain(others).collect()
});

/// What a token of byte-level BPE stands for. A character that stands for no byte is text.
pub(super) fn byte_level(name: &str) -> Spelling {
    let mut bytes = Vec::with_capacity(name.len());
    for c in name.chars() {
        match BYTES.get(&c) {
            Some(byte) => bytes.push(*byte),
            None => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    Spelling::Text(bytes)
}

/// What a token of SentencePiece stands for: text with spaces written as [`SPACE`], or one
/// byte as in `<0x0A>`.
pub(super) fn escaped(name: &str) -> Spelling {
    let byte = name.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    match byte.filter(|digits| digits.len() == 2).map(|digits| u8::from_str_radix(digits, 16)) {
        Some(Ok(byte)) => Spelling::Byte(byte),
        _ => Spelling::Text(name.replace(SPACE, " ").into_bytes()),
    }
}
