//! Keeps the template's control tokens and the contents of the messages apart, and with the contents
//! all other texts in messages and tools.
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
use super::values::{CharPlace, ForeignText, Mask, named_in_key, texts, values};
use crate::core::error::Error;
use crate::model::conversation::Conversation;

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
    /// the control tokens. Time and memory have no bound; `chat::prompt` has one.
    ///
    /// # Errors
    /// As [`Self::render`], or if the template looks for a control token in a content that
    /// holds its name: such strings cannot be distinguished from its own.
    pub fn prompt(
        &self,
        conversation: &Conversation,
        controls: &[&str],
    ) -> Result<ChatText, Error> {
        let render = |said: &Conversation| self.render(&values(said), conversation.today);
        let text = render(conversation)?;
        let fail = |why: String| Error::file(self.file(), why);
        if let Some(name) = named_in_key(conversation, controls) {
            return Err(fail(format!("a key in the conversation contains {name:?}: rename it")));
        }
        let texts = &*texts(conversation);
        let chars = characters(controls.iter().flat_map(|name| name.chars()));
        let every = places(texts, &chars);
        if every.is_empty() {
            return Ok(ChatText { text, plain: Vec::new() });
        }
        let Some(mask) = Mask::new(chars, texts, &text) else {
            return Err(fail("the conversation holds every private character".to_owned()));
        };
        let mut search =
            Search { mask: &mask, conversation, text: &text, render, left: MOST_RENDERINGS };
        let mut found = Masked { places: Vec::new(), text: text.clone() };
        // A template that changes letters, or looks for some, must do with fewer: it would be
        // misread if it wrote the ends of a name itself and took the middle from a content.
        if !search.hides(&every, &mut found).map_err(fail)? {
            let ends =
                controls.iter().flat_map(|name| [name.chars().next(), name.chars().next_back()]);
            let ends = places(texts, &characters(ends.flatten()));
            search.hide(&ends, &mut found).map_err(fail)?;
        }
        if let Some((message, name)) = watched(texts, &found.places, controls) {
            let place = message.map_or("a tool".to_owned(), |at| format!("message {}", at + 1));
            return Err(fail(format!(
                "{place} contains {name:?}, and the chat template acts on it, so it cannot be \
                 told apart from a control token of the template: remove it from there"
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

/// Where these characters are in the texts.
fn places(texts: &[ForeignText], chars: &[char]) -> Vec<CharPlace> {
    let mut places = Vec::new();
    for (number, foreign) in texts.iter().enumerate() {
        let found = foreign.text.chars().enumerate().filter(|(_, c)| chars.contains(c));
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
    conversation: &'a Conversation,
    text: &'a str,
    render: R,
    /// How many more renderings are allowed.
    left: usize,
}

impl<R: Fn(&Conversation) -> Result<String, Error>> Search<'_, R> {
    /// Hides `places`, all of which come after those in `found`, together with these; false if
    /// that would change what the template does.
    fn hides(&mut self, places: &[CharPlace], found: &mut Masked) -> Result<bool, String> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            "the chat template acts on too many strings in the messages".to_owned()
        })?;
        let all = [&*found.places, places].concat();
        let rendered = (self.render)(&self.mask.put_on(self.conversation, &all));
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

/// The message, or none for a tool, with the name of a control token of which no character is
/// hidden.
fn watched<'n>(
    texts: &[ForeignText],
    hidden: &[CharPlace],
    controls: &[&'n str],
) -> Option<(Option<usize>, &'n str)> {
    let is_hidden = |place: CharPlace| hidden.binary_search(&place).is_ok();
    texts.iter().enumerate().find_map(|(number, ForeignText { message, text })| {
        let open = |&name: &&str| {
            occurrences(text, name).any(|at| {
                let first = text[..at].chars().count();
                let mut indices = first..first + name.chars().count();
                !indices.any(|index| is_hidden((number, index)))
            })
        };
        Some((*message, *controls.iter().find(|name| open(name))?))
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
