//! Text to tokens and back.

use std::sync::Arc;

use super::LanguageModel;
use super::conversation::Conversation;
use crate::core::distribution::Token;
use crate::core::error::Error;

/// What a token stands for, independent of its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spelling {
    /// These bytes of a text.
    Text(Vec<u8>),
    /// One byte of a character that has no token of its own.
    Byte(u8),
    /// No text: a control token of this name.
    Control(String),
}

impl Spelling {
    /// The bytes that it adds to a text.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(bytes) => bytes,
            Self::Byte(byte) => std::slice::from_ref(byte),
            Self::Control(_) => &[],
        }
    }
}

/// A model with its text codec.
#[derive(Debug)]
pub struct Loaded {
    /// The model.
    pub model: Box<dyn LanguageModel>,
    /// Its tokenizer.
    pub codec: Arc<dyn Codec>,
}

/// Turns text into tokens and tokens into text.
pub trait Codec: std::fmt::Debug + Send + Sync {
    /// The tokens of a text, with the special tokens that the model expects around it;
    /// at least one. An empty text becomes the beginning-of-text token.
    ///
    /// No string in the text becomes a control token, in particular none that ends a
    /// text, unless [`Settings::special_tokens`](crate::engine::Settings::special_tokens) is
    /// set.
    ///
    /// # Errors
    /// If the text cannot be encoded, or if it is empty and there is no
    /// beginning-of-text token.
    fn encode(&self, text: &str) -> Result<Vec<Token>, Error>;

    /// What it puts before every text. The token that stands for an empty text is not part of it.
    fn head(&self) -> Vec<Token> {
        self.encode("").unwrap_or_default()
    }

    /// A string in the text that names a control token but is encoded as plain text.
    fn control_string(&self, _text: &str) -> Option<String> {
        None
    }

    /// The tokens of a conversation as the model's chat template writes it, up to where the
    /// model's answer begins. The template says which tokens begin the text.
    ///
    /// The control tokens are the template's: no string in the messages becomes one, unless
    /// [`Settings::special_tokens`](crate::engine::Settings::special_tokens) is set.
    ///
    /// # Errors
    /// If the model has no template, or it refuses the conversation.
    fn encode_chat(&self, conversation: &Conversation) -> Result<Vec<Token>, Error> {
        let _ = conversation;
        Err(no_template())
    }

    /// SHA-256 of the chat template.
    ///
    /// # Errors
    /// If the model has none, or it is damaged.
    fn chat_sha256(&self) -> Result<String, Error> {
        Err(no_template())
    }

    /// Whether the chat template has a name in it, as that of an argument that it reads.
    ///
    /// # Errors
    /// As [`Self::chat_sha256`].
    fn chat_names(&self, name: &str) -> Result<bool, Error> {
        let _ = name;
        Err(no_template())
    }

    /// The text of tokens, special tokens left out. Bytes that are not (yet)
    /// UTF-8 come out as U+FFFD.
    ///
    /// # Errors
    /// If a token is unknown.
    fn decode(&self, tokens: &[Token]) -> Result<String, Error>;

    /// The text of tokens with the names of special ones, which [`Self::decode`] leaves out.
    ///
    /// # Errors
    /// As [`Self::decode`].
    fn decode_all(&self, tokens: &[Token]) -> Result<String, Error> {
        self.decode(tokens)
    }

    /// How one token is shown in a table, special tokens included.
    fn token_label(&self, token: Token) -> String;

    /// What the tokens stand for, by id; `None` for an id without a token. Needed for
    /// drafts across vocabularies only.
    ///
    /// # Errors
    /// If this is not known of tokenizers of the kind.
    fn spellings(&self) -> Result<Vec<Option<Spelling>>, Error> {
        Err(Error::input("this tokenizer does not say what its tokens stand for"))
    }

    /// The tokens of a part of a text, with nothing around them; an empty part has none.
    /// Needed for drafts across vocabularies only.
    ///
    /// # Errors
    /// If the part cannot be encoded.
    fn encode_part(&self, part: &str) -> Result<Vec<Token>, Error> {
        if part.is_empty() { Ok(Vec::new()) } else { self.encode(part) }
    }
}

fn no_template() -> Error {
    Error::setting("a toy model has no chat template: leave out chat")
}

/// The text of toy models: token 0 is `a`, token 1 is `b`, and so on.
#[derive(Debug, Clone, Copy)]
pub struct Letters {
    /// Number of tokens.
    pub vocab: usize,
}

impl Codec for Letters {
    fn encode(&self, text: &str) -> Result<Vec<Token>, Error> {
        if text.is_empty() {
            return Err(Error::input(
                "the prompt is empty, and a toy has no beginning-of-text token to start from: \
                 give at least one letter",
            ));
        }
        text.chars()
            .map(|c| {
                let token = u32::from(c).wrapping_sub(u32::from('a'));
                if (token as usize) < self.vocab { Ok(token) } else { Err(self.unknown(c)) }
            })
            .collect()
    }

    fn decode(&self, tokens: &[Token]) -> Result<String, Error> {
        Ok(tokens.iter().map(|&t| self.token_label(t)).collect())
    }

    fn token_label(&self, token: Token) -> String {
        char::from_u32(u32::from('a') + token).unwrap_or('?').to_string()
    }

    fn spellings(&self) -> Result<Vec<Option<Spelling>>, Error> {
        let letters = (0..self.vocab as Token).map(|token| self.token_label(token));
        Ok(letters.map(|letter| Some(Spelling::Text(letter.into_bytes()))).collect())
    }
}

impl Letters {
    fn unknown(&self, c: char) -> Error {
        let last = self.token_label(self.vocab.saturating_sub(1) as Token);
        Error::input(format!("a toy prompt may contain only the letters a to {last}, not {c:?}"))
    }
}

/// The text of toy models whose tokens are words of one or more letters, by id. A text is
/// read from left to right, each time the longest word that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words(pub &'static [&'static str]);

impl Codec for Words {
    fn encode(&self, text: &str) -> Result<Vec<Token>, Error> {
        let (mut tokens, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let next = (0..).zip(self.0).filter(|(_, word)| rest.starts_with(**word));
            let Some((token, word)) = next.max_by_key(|(_, word)| word.len()) else {
                let words = self.0.join(", ");
                return Err(Error::input(format!("no word of {words} begins {rest:?}")));
            };
            tokens.push(token);
            rest = &rest[word.len()..];
        }
        match tokens.is_empty() {
            true => Err(Error::input("the prompt is empty: give at least one word of the toy")),
            false => Ok(tokens),
        }
    }

    fn decode(&self, tokens: &[Token]) -> Result<String, Error> {
        Ok(tokens.iter().map(|&token| self.token_label(token)).collect())
    }

    fn token_label(&self, token: Token) -> String {
        (*self.0.get(token as usize).unwrap_or(&"?")).to_owned()
    }

    fn spellings(&self) -> Result<Vec<Option<Spelling>>, Error> {
        let words = self.0.iter().map(|word| word.as_bytes().to_vec());
        Ok(words.map(|word| Some(Spelling::Text(word))).collect())
    }
}
