//! What a chat template is given.

use serde_json::{Map, Value, json};

use crate::model::conversation::ChatMessage;

/// The values for messages that the model is to answer. Without tools and documents
/// `transformers` passes `none` for them.
pub(super) fn values(messages: &[ChatMessage]) -> Map<String, Value> {
    let messages = messages.iter().map(|m| json!({ "role": m.role, "content": m.content }));
    Map::from_iter([
        ("messages".to_owned(), messages.collect()),
        ("tools".to_owned(), Value::Null),
        ("documents".to_owned(), Value::Null),
        ("add_generation_prompt".to_owned(), Value::Bool(true)),
    ])
}

/// Distinguishes the contents of messages from what the template adds: in some places characters of
/// the contents are replaced by characters that occur nowhere else.
#[derive(Debug)]
pub(super) struct Mask {
    /// The replaced characters, each with what stands for it.
    pairs: Vec<(char, char)>,
}

/// A character of the contents: the message and the index of the character in it.
pub(super) type CharPlace = (usize, usize);

impl Mask {
    /// A mask for `chars`; what stands for them does not occur in the messages or in `text`.
    /// `None` if all private characters of Unicode's last plane do.
    pub(super) fn new(
        chars: impl IntoIterator<Item = char>,
        messages: &[ChatMessage],
        text: &str,
    ) -> Option<Self> {
        let private = '\u{100000}'..='\u{10FFFD}';
        let texts = messages.iter().flat_map(|m| [&*m.content, &*m.role]).chain([text]);
        let used = texts.flat_map(str::chars).filter(|c| private.contains(c));
        let used = used.collect::<std::collections::BTreeSet<_>>();
        let mut free = private.filter(|c| !used.contains(c));
        let pairs = chars.into_iter().map(|c| Some((c, free.next()?)));
        Some(Self { pairs: pairs.collect::<Option<_>>()? })
    }

    /// The messages with the characters at `places`, which are in ascending order, replaced.
    pub(super) fn put_on(
        &self,
        messages: &[ChatMessage],
        places: &[CharPlace],
    ) -> Vec<ChatMessage> {
        let mut places = places.iter().peekable();
        let mut masked = Vec::with_capacity(messages.len());
        for (number, message) in messages.iter().enumerate() {
            let mut hide = |(index, c)| match places.next_if(|&&place| place == (number, index)) {
                Some(_) => self.hidden(c),
                None => c,
            };
            let content = message.content.chars().enumerate().map(&mut hide).collect();
            masked.push(ChatMessage { content, ..message.clone() });
        }
        masked
    }

    /// What stands for a character.
    pub(super) fn hidden(&self, c: char) -> char {
        self.pairs.iter().find(|(shown, _)| *shown == c).map_or(c, |(_, hidden)| *hidden)
    }

    /// The character that another stands for.
    pub(super) fn shown(&self, c: char) -> char {
        self.pairs.iter().find(|(_, hidden)| *hidden == c).map_or(c, |(shown, _)| *shown)
    }
}
