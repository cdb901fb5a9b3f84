//! A grammar: the texts that a completion may be.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::core::distribution::Token;
use crate::core::registry::named;

/// How a grammar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrammarKind {
    /// A JSON schema, whose values the completion is one of.
    JsonSchema,
    /// A regular expression that matches the whole completion.
    Regex,
    /// Rules in the EBNF of Lark, as llguidance reads it.
    Lark,
}

named!(GrammarKind: JsonSchema = "json_schema", Regex = "regex", Lark = "lark");

/// A grammar, as it was written and as rules for the tokens of a model.
#[derive(Clone, Serialize, Deserialize)]
pub struct Grammar {
    kind: GrammarKind,
    text: String,
    /// None in a grammar that was read from a file, until it is compiled.
    #[serde(skip)]
    rules: Option<Arc<dyn TokenRules>>,
}

/// Which tokens may follow a completion.
pub trait TokenRules: fmt::Debug + Send + Sync {
    /// The tokens that may follow the completion; end tokens, where it is complete. `None` if it
    /// follows no rule itself: no row of a draft after such tokens is ever reached.
    ///
    /// It depends on the completion alone.
    ///
    /// # Errors
    /// If the grammar is too large to be followed.
    fn allowed(&self, completion: &[Token]) -> Result<Option<Arc<TokenSet>>, String>;
}

/// A set of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenSet(Vec<u32>);

impl Grammar {
    /// A grammar with the rules that follow from it for the tokens of a model.
    pub fn new(kind: GrammarKind, text: String, rules: Arc<dyn TokenRules>) -> Self {
        Self { kind, text, rules: Some(rules) }
    }

    /// The same grammar, made again by `compile`.
    pub(super) fn compiled<E>(
        &self,
        compile: impl FnOnce(GrammarKind, &str) -> Result<Self, E>,
    ) -> Result<Self, E> {
        compile(self.kind, &self.text)
    }

    /// Whether it has the rules for the tokens of a model.
    pub(super) fn is_compiled(&self) -> bool {
        self.rules.is_some()
    }

    /// See [`TokenRules::allowed`].
    pub(super) fn allowed(&self, completion: &[Token]) -> Result<Option<Arc<TokenSet>>, String> {
        self.rules.as_ref().map_or(Ok(None), |rules| rules.allowed(completion))
    }

    /// The kind, with the beginning of the text.
    pub(super) fn words(&self) -> String {
        const SHOWN: usize = 24;
        let mut text = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((cut, _)) = text.char_indices().nth(SHOWN) {
            text.truncate(cut);
            text.push('…');
        }
        format!("{} = {text}", self.kind.name())
    }
}

impl TokenSet {
    /// A set of these tokens.
    pub fn new(tokens: impl IntoIterator<Item = Token>) -> Self {
        let mut set = Self::default();
        for token in tokens {
            set.insert(token);
        }
        set
    }

    /// Adds a token.
    pub fn insert(&mut self, token: Token) {
        let word = token as usize / 32;
        self.0.resize(self.0.len().max(word + 1), 0);
        self.0[word] |= 1 << (token % 32);
    }

    /// The set whose tokens are the ones among these bits, the lowest bit of the first word first.
    pub fn of_bits(words: Vec<u32>) -> Self {
        Self(words)
    }

    /// Whether it has a token.
    pub fn contains(&self, token: Token) -> bool {
        self.0.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
    }

    /// Whether it has none but these.
    pub fn is_within(&self, tokens: &[Token]) -> bool {
        let others = tokens.iter().fold(self.clone(), |mut left, &token| {
            left.remove(token);
            left
        });
        others.0.iter().all(|word| *word == 0)
    }

    /// Removes a token. Returns whether it was there.
    pub fn remove(&mut self, token: Token) -> bool {
        let had = self.contains(token);
        if let Some(word) = self.0.get_mut(token as usize / 32) {
            *word &= !(1 << (token % 32));
        }
        had
    }

    /// The token, if it is the only one.
    pub fn only(&self) -> Option<Token> {
        let ones = self.0.iter().map(|word| word.count_ones()).sum::<u32>();
        let word = self.0.iter().position(|word| *word != 0).filter(|_| ones == 1)?;
        Some(32 * word as Token + self.0[word].trailing_zeros())
    }
}

impl PartialEq for Grammar {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.text) == (other.kind, &other.text)
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.words())
    }
}
