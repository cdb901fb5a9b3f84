//! The part of `sentencepiece_model.proto` that tokenising needs.

use std::collections::BTreeMap;

use super::message::{Field, Fields};

/// A SentencePiece model.
#[derive(Debug)]
pub(super) struct Model {
    /// By id.
    pub(super) pieces: Vec<Piece>,
    /// Whether a space is put before a text.
    pub(super) add_dummy_prefix: bool,
    /// Whether spaces around a text, and all but one between words, are removed.
    pub(super) remove_extra_whitespaces: bool,
    /// What the model does that is not supported.
    pub(super) unsupported: Option<String>,
}

#[derive(Debug)]
pub(super) struct Piece {
    pub(super) name: String,
    pub(super) score: f32,
    /// 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
    pub(super) kind: i32,
}

impl Model {
    /// Reads a model.
    ///
    /// # Errors
    /// If it is damaged.
    pub(super) fn read(message: &[u8]) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let (mut trainer, mut normalizer) = (Values::default(), Values::default());
        for field in Fields(message) {
            match field? {
                (1, Field::Bytes(message)) => pieces.push(Piece::read(message, pieces.len())?),
                (2, Field::Bytes(message)) => trainer = Values::read(message)?,
                (3, Field::Bytes(message)) => normalizer = Values::read(message)?,
                _ => {}
            }
        }
        if pieces.is_empty() {
            return Err("not a SentencePiece model, or one without pieces".to_owned());
        }
        if trainer.number(24, 0) != 0 || normalizer.number(5, 1) == 0 {
            let what = "models that write white space otherwise than as U+2581 before a word";
            return Err(format!("{what} are not supported"));
        }
        Ok(Self {
            unsupported: unsupported(&trainer, &normalizer, &pieces),
            add_dummy_prefix: normalizer.number(3, 1) != 0,
            remove_extra_whitespaces: normalizer.number(4, 1) != 0,
            pieces,
        })
    }
}

/// What a model is or does that is not supported, by its values for training and normalising.
fn unsupported(trainer: &Values<'_>, normalizer: &Values<'_>, pieces: &[Piece]) -> Option<String> {
    let kind = trainer.number(3, 1);
    if kind != 2 {
        let kinds = ["unigram", "bpe", "word", "char"];
        let kind = kinds.iter().zip(1..).find(|(_, number)| *number == kind);
        return Some(format!("it is a model of type {}", kind.map_or("unknown", |(name, _)| name)));
    }
    if trainer.number(35, 0) == 0 {
        return Some("it has no byte_fallback".to_owned());
    }
    if !normalizer.text(2).is_empty() {
        return Some("it has a precompiled_charsmap".to_owned());
    }
    let other = pieces.iter().position(|piece| !matches!(piece.kind, 1..=3 | 6));
    other.map(|id| format!("piece {id} is user-defined or unused"))
}

impl Piece {
    fn read(message: &[u8], id: usize) -> Result<Self, String> {
        let values = Values::read(message)?;
        let name = String::from_utf8(values.text(1).to_vec()).ok().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| format!("piece {id} has no name in UTF-8"))?;
        let score = match values.0.get(&2) {
            Some(&Field::Fixed(&[a, b, c, d])) => f32::from_le_bytes([a, b, c, d]),
            _ => 0.0,
        };
        let kind = i32::try_from(values.number(3, 1)).unwrap_or_default();
        Ok(Self { name, score, kind })
    }
}

/// The last value of each field of a message.
#[derive(Default)]
struct Values<'m>(BTreeMap<u64, Field<'m>>);

impl<'m> Values<'m> {
    fn read(message: &'m [u8]) -> Result<Self, String> {
        Fields(message).collect::<Result<_, _>>().map(Self)
    }

    fn number(&self, field: u64, default: u64) -> u64 {
        match self.0.get(&field) {
            Some(Field::Number(number)) => *number,
            _ => default,
        }
    }

    fn text(&self, field: u64) -> &'m [u8] {
        match self.0.get(&field) {
            Some(Field::Bytes(text)) => text,
            _ => &[],
        }
    }
}
