//! What a request forbids, allows or prefers.
//!
//! Controls change logits before the penalties, in this order: grammar, `allowed_token_ids`,
//! `bad_words`, `min_tokens`, `logit_bias`. Each is a function of the completion before the row:
//! for a row of a draft, of the committed tokens and of the drafted ones before it. So there is no
//! state that a rejected token could advance.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::grammar::{Grammar, GrammarKind};
use super::{History, Logits};
use crate::core::distribution::{DistError, Token};
use crate::core::params::BadParam;

/// The controls of a request; none by default. Copies share them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "ControlSet", into = "ControlSet")]
pub struct Controls(Option<Arc<ControlSet>>);

/// All controls, in the order in which they apply. Tokens are ids of the target.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ControlSet {
    /// What the completion must be; it ends where the grammar is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grammar: Option<Grammar>,
    /// The only tokens that may occur, ascending; all may if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_token_ids: Vec<Token>,
    /// Sequences that may not occur: the last token of each is impossible after the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bad_words: Vec<Vec<Token>>,
    /// The tokens before which the completion cannot end, unless nothing may follow in the grammar.
    pub min_tokens: usize,
    /// The tokens that end it, for `min_tokens`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<Token>,
    /// What is added to the logits of some tokens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logit_bias: Vec<(Token, f64)>,
}

impl Controls {
    /// No controls.
    pub const NONE: Self = Self(None);

    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// All of them, if there are any.
    pub fn set(&self) -> Option<&ControlSet> {
        self.0.as_deref()
    }

    /// Checks what no model is needed for.
    ///
    /// # Errors
    /// Names the control and its allowed values.
    pub(super) fn validate(&self) -> Result<(), BadParam> {
        let Some(set) = self.set() else { return Ok(()) };
        let bad = |key, value: String, allowed: &str| {
            Err(BadParam { key, value, allowed: allowed.to_owned() })
        };
        if let Some((_, bias)) = set.logit_bias.iter().find(|(_, bias)| !bias.is_finite()) {
            return bad("logit_bias", bias.to_string(), "a finite number");
        }
        if set.bad_words.iter().any(Vec::is_empty) {
            return bad("bad_words", "[]".to_owned(), "words of one token or more");
        }
        Ok(())
    }

    /// The only token that grammar and `allowed_token_ids` leave, if there is one.
    pub(super) fn forced(&self, history: History<'_>) -> Result<Option<Token>, DistError> {
        let Some((set, grammar)) = self.set().and_then(|set| Some((set, set.grammar.as_ref()?)))
        else {
            return Ok(None);
        };
        let allowed = grammar.allowed(&history.completion()).map_err(DistError::Grammar)?;
        Ok(allowed.and_then(|allowed| {
            let mut ids = set.allowed_token_ids.iter().filter(|token| allowed.contains(**token));
            match (ids.next(), ids.next()) {
                (Some(only), None) => Some(*only),
                (None, _) if set.allowed_token_ids.is_empty() => allowed.only(),
                _ => None,
            }
        }))
    }

    /// The same controls with the rules of their grammar, if they have one without rules; `compile`
    /// makes the grammar from its kind and text.
    ///
    /// # Errors
    /// Those of `compile`.
    pub fn compiled<E>(
        &self,
        compile: impl FnOnce(GrammarKind, &str) -> Result<Grammar, E>,
    ) -> Result<Self, E> {
        let Some(set) = self.set() else { return Ok(Self::NONE) };
        let grammar = set.grammar.as_ref().filter(|grammar| !grammar.is_compiled());
        let Some(grammar) = grammar else { return Ok(self.clone()) };
        let grammar = Some(grammar.compiled(compile)?);
        Ok(ControlSet { grammar, ..set.clone() }.into())
    }

    /// Checks that a grammar has rules for the tokens of a model.
    ///
    /// # Errors
    /// If it was read from a file, and not compiled.
    pub(super) fn check_compiled(&self) -> Result<(), BadParam> {
        let grammar = self.set().and_then(|set| set.grammar.as_ref());
        match grammar.filter(|grammar| !grammar.is_compiled()) {
            None => Ok(()),
            Some(grammar) => Err(BadParam {
                key: "grammar",
                value: grammar.words(),
                allowed: "one that was compiled for the tokens of the target".to_owned(),
            }),
        }
    }

    /// Changes the logits of a row.
    ///
    /// # Errors
    /// If the grammar cannot be followed.
    pub(super) fn apply(&self, scores: &mut Logits, history: History<'_>) -> Result<(), DistError> {
        let Some(set) = self.set() else { return Ok(()) };
        let completion = history.completion();
        let allowed = set.grammar.as_ref().map(|grammar| grammar.allowed(&completion));
        let allowed = allowed.transpose().map_err(DistError::Grammar)?.flatten();
        // An end may come early where nothing else may follow.
        let early = completion.len() < set.min_tokens
            && !allowed.as_ref().is_some_and(|allowed| allowed.is_within(&set.ends));
        if let Some(allowed) = allowed {
            scores.keep(|token| allowed.contains(token));
        }
        if !set.allowed_token_ids.is_empty() {
            scores.keep(|token| set.allowed_token_ids.binary_search(&token).is_ok());
        }
        for word in &set.bad_words {
            if let Some((&last, before)) = word.split_last()
                && completion.ends_with(before)
            {
                scores.forbid(last);
            }
        }
        if early {
            for &end in &set.ends {
                scores.forbid(end);
            }
        }
        for &(token, bias) in &set.logit_bias {
            if (token as usize) < scores.len() {
                scores.set(token, scores.get(token) + bias);
            }
        }
        Ok(())
    }
}

impl From<ControlSet> for Controls {
    fn from(mut set: ControlSet) -> Self {
        set.allowed_token_ids.sort_unstable();
        Self((set != ControlSet::default()).then(|| Arc::new(set)))
    }
}

impl From<Controls> for ControlSet {
    fn from(controls: Controls) -> Self {
        controls.set().cloned().unwrap_or_default()
    }
}

impl ControlSet {
    /// The controls in words, empty for none.
    pub fn words(&self) -> String {
        let count = |name: &str, count: usize| (count > 0).then(|| format!("{count} {name}"));
        let parts = [
            self.grammar.as_ref().map(Grammar::words),
            count("allowed_token_ids", self.allowed_token_ids.len()),
            count("bad_words", self.bad_words.len()),
            (self.min_tokens > 0).then(|| format!("min_tokens = {}", self.min_tokens)),
            count("logit_bias", self.logit_bias.len()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl Logits {
    /// Makes all tokens impossible but those that `may` occur.
    fn keep(&mut self, may: impl Fn(Token) -> bool) {
        match self {
            Logits::F32(scores) => keep(scores, f32::NEG_INFINITY, may),
            Logits::F64(scores) => keep(scores, f64::NEG_INFINITY, may),
        }
    }

    /// Makes a token impossible, if there is one.
    fn forbid(&mut self, token: Token) {
        if (token as usize) < self.len() {
            self.set(token, f64::NEG_INFINITY);
        }
    }
}

fn keep<S: Copy>(scores: &mut [S], impossible: S, may: impl Fn(Token) -> bool) {
    for (token, score) in scores.iter_mut().enumerate() {
        if !may(token as Token) {
            *score = impossible;
        }
    }
}
