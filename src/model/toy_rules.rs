//! Two small grammars over the tokens of a toy: a regular one, and one that counts.

use std::sync::Arc;

use crate::core::distribution::Token;
use crate::core::sampling::{Grammar, GrammarKind, TokenRules, TokenSet};

/// Rules for the tokens `0..vocab` of a toy, some of which end a text.
#[derive(Debug)]
struct ToyRules {
    vocab: usize,
    ends: Vec<Token>,
    /// Whether a token may follow tokens that follow the rules; for all end tokens the same.
    may_follow: fn(&ToyRules, &[Token], Token) -> bool,
}

impl ToyRules {
    fn grammar(self, text: &str) -> Grammar {
        Grammar::new(GrammarKind::Lark, text.to_owned(), Arc::new(self))
    }

    fn others(&self) -> impl Iterator<Item = Token> {
        (0..self.vocab as Token).filter(|token| !self.ends.contains(token))
    }
}

impl TokenRules for ToyRules {
    fn allowed(&self, completion: &[Token]) -> Result<Option<Arc<TokenSet>>, String> {
        let may = |before: &[Token], token| (self.may_follow)(self, before, token);
        let ended = completion.iter().any(|token| self.ends.contains(token));
        let broken = (0..completion.len()).any(|at| !may(&completion[..at], completion[at]));
        let next = (0..self.vocab as Token).filter(|token| may(completion, *token));
        Ok((!ended && !broken).then(|| Arc::new(TokenSet::new(next))))
    }
}

/// No token twice in a row.
pub fn without_repeats(vocab: usize, ends: &[Token]) -> Grammar {
    let may_follow = |_: &ToyRules, before: &[Token], token| before.last() != Some(&token);
    ToyRules { vocab, ends: ends.to_vec(), may_follow }.grammar("no token twice in a row")
}

/// The first token opens a bracket and the second closes one, at most two deep; a text ends where
/// all are closed.
pub fn brackets(vocab: usize, ends: &[Token]) -> Grammar {
    const DEEPEST: usize = 2;
    let may_follow = |rules: &ToyRules, before: &[Token], token| {
        let (open, close) = (rules.others().next(), rules.others().nth(1));
        let count = |of| before.iter().filter(|token| Some(**token) == of).count();
        let depth = count(open).saturating_sub(count(close));
        match Some(token) {
            token if token == open => depth < DEEPEST,
            token if token == close => depth > 0,
            _ if rules.ends.contains(&token) => depth == 0,
            _ => depth > 0,
        }
    };
    ToyRules { vocab, ends: ends.to_vec(), may_follow }.grammar("brackets, at most two deep")
}
