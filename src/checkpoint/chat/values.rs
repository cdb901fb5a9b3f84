//! What a chat template is given.

use serde_json::{Map, Value};

use crate::model::conversation::{ChatMessage, Conversation};

/// The values for a conversation that the model is to answer. Without tools and documents
/// `transformers` passes `none` for them.
pub(super) fn values(conversation: &Conversation) -> Map<String, Value> {
    let Conversation { messages, tools, arguments, .. } = conversation;
    let messages = messages.iter().map(|ChatMessage { role, fields }| {
        let role = ("role".to_owned(), Value::from(role.as_str()));
        [role].into_iter().chain(fields.clone()).collect::<Value>()
    });
    let tools = (!tools.is_empty()).then(|| tools.clone());
    let own = [
        ("messages".to_owned(), messages.collect()),
        ("tools".to_owned(), tools.into()),
        ("documents".to_owned(), Value::Null),
        ("add_generation_prompt".to_owned(), Value::Bool(true)),
    ];
    arguments.clone().into_iter().chain(own).collect()
}

/// A text of a conversation that is not the template's: a content, or a text at any depth of
/// another field or of a tool.
#[derive(Debug)]
pub(super) struct ForeignText {
    /// The number of its message, from 0; none for a tool.
    pub(super) message: Option<usize>,
    pub(super) text: String,
}

/// All texts of a conversation but the roles, in order.
pub(super) fn texts(conversation: &Conversation) -> Vec<ForeignText> {
    let mut found = Vec::new();
    replaced(conversation, |message, text| {
        found.push(ForeignText { message, text: text.to_owned() });
        String::new()
    });
    found
}

/// The conversation with each of its [`texts`] replaced.
fn replaced(
    conversation: &Conversation,
    mut by: impl FnMut(Option<usize>, &str) -> String,
) -> Conversation {
    let mut made = conversation.clone();
    for (number, message) in made.messages.iter_mut().enumerate() {
        for value in message.fields.values_mut() {
            replace(value, &mut |text| by(Some(number), text));
        }
    }
    for tool in &mut made.tools {
        replace(tool, &mut |text| by(None, text));
    }
    made
}

fn replace(value: &mut Value, by: &mut dyn FnMut(&str) -> String) {
    match value {
        Value::String(text) => *text = by(text),
        Value::Array(values) => {
            for value in values {
                replace(value, by);
            }
        }
        Value::Object(fields) => {
            for value in fields.values_mut() {
                replace(value, by);
            }
        }
        _ => {}
    }
}

/// Whether a key in a field of a message or in a tool contains one of these names.
pub(super) fn named_in_key<'n>(conversation: &Conversation, names: &[&'n str]) -> Option<&'n str> {
    fn inside<'n>(value: &Value, names: &[&'n str]) -> Option<&'n str> {
        match value {
            Value::Array(values) => values.iter().find_map(|value| inside(value, names)),
            Value::Object(fields) => within(fields, names),
            _ => None,
        }
    }
    fn within<'n>(fields: &Map<String, Value>, names: &[&'n str]) -> Option<&'n str> {
        fields.iter().find_map(|(key, value)| {
            let own = names.iter().copied().find(|name| key.contains(name));
            own.or_else(|| inside(value, names))
        })
    }
    let Conversation { messages, tools, .. } = conversation;
    let fields = messages.iter().find_map(|message| within(&message.fields, names));
    fields.or_else(|| tools.iter().find_map(|tool| inside(tool, names)))
}

/// Distinguishes the texts of a conversation from what the template adds: in some places
/// characters of the texts are replaced by characters that occur nowhere else.
#[derive(Debug)]
pub(super) struct Mask {
    /// The replaced characters, each with what stands for it.
    pairs: Vec<(char, char)>,
}

/// A character of the texts: the number of the text and the index of the character in it.
pub(super) type CharPlace = (usize, usize);

impl Mask {
    /// A mask for `chars`; what stands for them occurs neither in `texts` nor in what is `rendered`
    /// of them. `None` if all private characters of Unicode's last plane do.
    pub(super) fn new(
        chars: impl IntoIterator<Item = char>,
        texts: &[ForeignText],
        rendered: &str,
    ) -> Option<Self> {
        let private = '\u{100000}'..='\u{10FFFD}';
        let texts = texts.iter().map(|foreign| &*foreign.text).chain([rendered]);
        let used = texts.flat_map(str::chars).filter(|c| private.contains(c));
        let used = used.collect::<std::collections::BTreeSet<_>>();
        let mut free = private.filter(|c| !used.contains(c));
        let pairs = chars.into_iter().map(|c| Some((c, free.next()?)));
        Some(Self { pairs: pairs.collect::<Option<_>>()? })
    }

    /// The conversation with the characters at `places`, which are in ascending order, replaced.
    pub(super) fn put_on(&self, conversation: &Conversation, places: &[CharPlace]) -> Conversation {
        let (mut places, mut number) = (places.iter().peekable(), 0);
        replaced(conversation, |_, text| {
            let mut hide = |(index, c)| match places.next_if(|&&place| place == (number, index)) {
                Some(_) => self.hidden(c),
                None => c,
            };
            let masked = text.chars().enumerate().map(&mut hide).collect();
            number += 1;
            masked
        })
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
