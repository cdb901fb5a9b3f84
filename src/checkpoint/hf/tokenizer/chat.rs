//! Conversations in tokens.

use std::collections::BTreeSet;

use tokenizers::{NormalizedString, Result as TokenizerResult};

use super::super::guard::guarded;
use super::HfTokenizer;
use crate::checkpoint::chat::{ChatTemplate, ChatText, prompt};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::model::Conversation;

impl HfTokenizer {
    /// The tokens of a conversation.
    pub(super) fn conversation(&self, conversation: &Conversation) -> Result<Vec<Token>, Error> {
        let controls = self.controls.iter().filter(|_| !self.special_tokens);
        let names = controls.filter_map(|&id| self.tokenizer.id_to_token(id)).collect::<Vec<_>>();
        let names = names.iter().map(String::as_str).collect::<Vec<_>>();
        let text = prompt(self.template()?, conversation, &names)?;
        let fail = |why: String| {
            Error::file(&self.file, format!("the conversation cannot be tokenised: {why}"))
        };
        let ids = guarded(|| self.chat_ids(&text)).map_err(fail)?;
        if ids.is_empty() {
            return Err(fail("the chat template makes an empty text of it".to_owned()));
        }
        Ok(ids)
    }

    /// The tokens of a rendered conversation. While the added tokens are found, other
    /// characters stand in the places that keep strings from being control tokens.
    fn chat_ids(&self, chat: &ChatText) -> TokenizerResult<Vec<Token>> {
        let ChatText { text, plain } = chat;
        let shown =
            plain.iter().filter_map(|&at| text[at..].chars().next()).collect::<BTreeSet<_>>();
        let private = ('\u{100000}'..='\u{10FFFD}').filter(|&c| !text.contains(c));
        let pairs = shown.into_iter().zip(private).collect::<Vec<_>>();
        let hidden = |c: char| pairs.iter().find(|(shown, _)| *shown == c).map_or(c, |pair| pair.1);
        let back = |c: char| pairs.iter().find(|(_, hidden)| *hidden == c).map_or(c, |pair| pair.0);
        let masked = text.char_indices().map(|(at, c)| match plain.binary_search(&at) {
            Ok(_) => hidden(c),
            Err(_) => c,
        });
        let tokenizer = &self.tokenizer;
        let added = tokenizer.get_added_vocabulary();
        let masked = masked.collect::<String>();
        let mut parts = added.extract_and_normalize(tokenizer.get_normalizer(), &masked);
        parts.split(|_, mut part: NormalizedString| {
            part.map(back);
            Ok([part])
        })?;
        self.pieced(parts, false)
    }

    /// The chat template.
    pub(super) fn template(&self) -> Result<&ChatTemplate, Error> {
        let (source, template) = &self.chat;
        template.get_or_init(|| source.read()).as_ref().map_err(Clone::clone)
    }
}
