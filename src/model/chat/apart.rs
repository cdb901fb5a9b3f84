//! Keeps the template's control tokens and the contents of the messages apart.
//!
//! A rendered text says nothing of where its parts come from, and a template may do anything
//! with a content: trim it, split it, put it into JSON. So the text is rendered twice, the
//! second time with some characters of the contents replaced by private ones. If the two
//! texts differ in nothing else, the private characters show which parts are contents. Only
//! characters of the names of control tokens are replaced. A template may also look for a
//! string in a content, such as `</think>`, or change its letters. Then only the characters
//! that begin or end names are replaced, and each replacement that changes what the template
//! does is taken back.

use serde::{Deserialize, Serialize};

use super::template::ChatTemplate;
use super::values::{CharPlace, Mask, values};
use crate::error::Error;
use crate::model::conversation::{ChatMessage, Conversation};

/// How often a text is rendered at most. Each place that a template looks at takes about
/// twice the logarithm of the number of places.
const MOST_RENDERINGS: usize = 2_000;

/// A rendered conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatText {
    /// The text.
    pub text: String,
    /// Offsets in bytes of characters, in ascending order: in every string of the text that
    /// is the name of a control token but holds a part of a content, there is one of them.
    /// Such strings are plain text; all others are the template's own.
    pub plain: Vec<usize>,
}

impl ChatTemplate {
    /// Renders a conversation that the model is to answer, and finds the strings in it that
    /// are called like control tokens but come from contents. `controls` are the names of
    /// the control tokens. Time and memory have no bound; [`super::prompt`] has one.
    ///
    /// # Errors
    /// As [`Self::render`], or if the template looks for a control token in a content that
    /// holds its name: such strings cannot be distinguished from its own.
    pub fn prompt(
        &self,
        conversation: &Conversation,
        controls: &[&str],
    ) -> Result<ChatText, Error> {
        let messages = &conversation.messages;
        let render = |messages: &[ChatMessage]| self.render(&values(messages), conversation.today);
        let text = render(messages)?;
        let chars = characters(controls.iter().flat_map(|name| name.chars()));
        let every = places(messages, &chars);
        if every.is_empty() {
            return Ok(ChatText { text, plain: Vec::new() });
        }
        let fail = |why: String| Error::file(self.file(), why);
        let Some(mask) = Mask::new(chars, messages, &text) else {
            return Err(fail("the conversation holds every private character".to_owned()));
        };
        let mut search =
            Search { mask: &mask, messages, text: &text, render, left: MOST_RENDERINGS };
        let mut found = Masked { places: Vec::new(), text: text.clone() };
        // A template that changes letters, or looks for some, must do with fewer: it would be
        // misread if it wrote the ends of a name itself and took the middle from a content.
        if !search.hides(&every, &mut found).map_err(fail)? {
            let ends =
                controls.iter().flat_map(|name| [name.chars().next(), name.chars().next_back()]);
            let ends = places(messages, &characters(ends.flatten()));
            search.hide(&ends, &mut found).map_err(fail)?;
        }
        if let Some((number, name)) = watched(messages, &found.places, controls) {
            return Err(fail(format!(
                "message {} contains {name:?}, and the chat template acts on it, so it cannot be \
                 told apart from a control token of the template: remove it from the message",
                number + 1
            )));
        }
        let plain = plain(&text, &found.text, controls);
        Ok(ChatText { text, plain })
    }
}

/// Some characters, each once, without white space, which templates remove.
fn characters(chars: impl Iterator<Item = char>) -> Vec<char> {
    let mut chars = chars.filter(|c| !c.is_whitespace()).collect::<Vec<_>>();
    chars.sort_unstable();
    chars.dedup();
    chars
}

/// Where these characters are in the contents.
fn places(messages: &[ChatMessage], chars: &[char]) -> Vec<CharPlace> {
    let mut places = Vec::new();
    for (number, message) in messages.iter().enumerate() {
        let found = message.content.chars().enumerate().filter(|(_, c)| chars.contains(c));
        places.extend(found.map(|(index, _)| (number, index)));
    }
    places
}

/// The places that are hidden, and the text that is rendered then.
struct Masked {
    places: Vec<CharPlace>,
    text: String,
}

/// The search for the places that can be hidden without changing what the template does.
struct Search<'a, R> {
    mask: &'a Mask,
    messages: &'a [ChatMessage],
    text: &'a str,
    render: R,
    /// How many more renderings are allowed.
    left: usize,
}

impl<R: Fn(&[ChatMessage]) -> Result<String, Error>> Search<'_, R> {
    /// Hides `places`, all of which come after those in `found`, together with these; false if
    /// that would change what the template does.
    fn hides(&mut self, places: &[CharPlace], found: &mut Masked) -> Result<bool, String> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            "the chat template acts on too many strings in the messages".to_owned()
        })?;
        let all = [&*found.places, places].concat();
        let rendered = (self.render)(&self.mask.put_on(self.messages, &all));
        let shown = |text: &String| text.chars().map(|c| self.mask.shown(c)).eq(self.text.chars());
        let rendered = rendered.ok().filter(shown);
        Ok(rendered.map(|text| *found = Masked { places: all, text }).is_some())
    }

    /// Hides as many of `places` as can be hidden, together with those in `found`.
    fn hide(&mut self, places: &[CharPlace], found: &mut Masked) -> Result<(), String> {
        if places.is_empty() || self.hides(places, found)? {
            return Ok(());
        }
        let (first, second) = places.split_at(places.len() / 2);
        for half in [first, second] {
            if half.len() < places.len() {
                self.hide(half, found)?;
            }
        }
        Ok(())
    }
}

/// A message with the name of a control token of which no character is hidden.
fn watched<'n>(
    messages: &[ChatMessage],
    hidden: &[CharPlace],
    controls: &[&'n str],
) -> Option<(usize, &'n str)> {
    let is_hidden = |place: CharPlace| hidden.binary_search(&place).is_ok();
    messages.iter().enumerate().find_map(|(number, message)| {
        let open = |&name: &&str| {
            occurrences(&message.content, name).any(|at| {
                let first = message.content[..at].chars().count();
                let mut indices = first..first + name.chars().count();
                !indices.any(|index| is_hidden((number, index)))
            })
        };
        Some((number, *controls.iter().find(|name| open(name))?))
    })
}

/// In every occurrence of a control token's name that holds a hidden character, the first of
/// these. `masked` is the text with the hidden characters.
fn plain(text: &str, masked: &str, controls: &[&str]) -> Vec<usize> {
    let pairs = text.char_indices().zip(masked.chars());
    let hidden = pairs.filter(|((_, c), m)| c != m).map(|((at, _), _)| at).collect::<Vec<_>>();
    let mut plain = Vec::new();
    for name in controls {
        for at in occurrences(text, name) {
            let first = hidden.partition_point(|&hidden| hidden < at);
            plain.extend(hidden.get(first).filter(|&&hidden| hidden < at + name.len()));
        }
    }
    plain.sort_unstable();
    plain.dedup();
    plain
}

/// Where a name begins in a text, overlapping occurrences included.
fn occurrences(text: &str, name: &str) -> impl Iterator<Item = usize> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + text.get(from..)?.find(name).filter(|_| !name.is_empty())?;
        from = at + text[at..].chars().next().map_or(1, char::len_utf8);
        Some(at)
    })
}
