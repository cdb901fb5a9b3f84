//! Stop conditions. Those on tokens and text are checked after every committed token,
//! so they may cut a round short; the deadline and the context length are checked
//! between rounds.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::core::distribution::Token;

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// An end-of-sequence token was committed.
    Eos,
    /// A stop token was committed.
    StopToken,
    /// A stop string appeared in the text.
    StopString,
    /// `max_tokens` tokens were committed.
    MaxTokens,
    /// The model's context is full.
    ContextFull,
    /// The deadline passed.
    Deadline,
    /// The user's own condition was met.
    User,
}

impl StopReason {
    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            StopReason::Eos => "eos",
            StopReason::StopToken => "stop_token",
            StopReason::StopString => "stop_string",
            StopReason::MaxTokens => "max_tokens",
            StopReason::ContextFull => "context_full",
            StopReason::Deadline => "deadline",
            StopReason::User => "user",
        }
    }
}

/// The largest number of new tokens for which a session reserves room in advance. Longer
/// completions reserve more as they grow: most end earlier.
const AHEAD: usize = 1024;

/// The number of tokens for which a session reserves room in advance, for `prompt` tokens followed
/// by at most `most` new ones.
pub(crate) fn room_for(prompt: usize, most: usize) -> usize {
    prompt + most.min(AHEAD)
}

/// A user's own stop condition, called with the completion so far.
pub type UserStop<'a> = Box<dyn FnMut(&[Token], &str) -> bool + 'a>;

/// The conditions of one generation.
#[derive(Default)]
pub struct StopRules<'a> {
    /// End after this many new tokens; 0 generates nothing.
    pub max_tokens: usize,
    /// End after any of these tokens; if there are none, end tokens are treated like
    /// any other token.
    pub eos: Vec<Token>,
    /// End after any of these, too.
    pub tokens: Vec<Token>,
    /// End as soon as the text contains one of these.
    pub strings: Vec<String>,
    /// Whether the text of the completion has the stop token or string that ended it.
    pub keeps_stop: bool,
    /// End at the first round that begins this long after the decode started.
    pub deadline: Option<Duration>,
    /// End when this returns true.
    pub user: Option<UserStop<'a>>,
}

impl fmt::Debug for StopRules<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StopRules")
            .field("max_tokens", &self.max_tokens)
            .field("eos", &self.eos)
            .field("tokens", &self.tokens)
            .field("strings", &self.strings)
            .field("keeps_stop", &self.keeps_stop)
            .field("deadline", &self.deadline)
            .field("user", &self.user.is_some())
            .finish()
    }
}

impl StopRules<'_> {
    /// The same conditions without the user's own, which belongs to one generation.
    pub fn without_user(&self) -> StopRules<'static> {
        StopRules {
            max_tokens: self.max_tokens,
            eos: self.eos.clone(),
            tokens: self.tokens.clone(),
            strings: self.strings.clone(),
            keeps_stop: self.keeps_stop,
            deadline: self.deadline,
            user: None,
        }
    }

    /// Ends after `max_tokens` tokens, without other conditions.
    pub fn max_tokens(max_tokens: usize) -> Self {
        Self { max_tokens, ..Self::default() }
    }

    /// Whether the last token of `new`, just committed, ends the completion, and why.
    pub(super) fn after_token(&mut self, new: &[Token], text: &str) -> Option<StopReason> {
        let last = *new.last()?;
        if let Some(reason) = self.at(last) {
            return Some(reason);
        }
        if self.find_string(text).is_some() {
            return Some(StopReason::StopString);
        }
        if self.user.as_mut().is_some_and(|stop| stop(new, text)) {
            return Some(StopReason::User);
        }
        (new.len() >= self.max_tokens).then_some(StopReason::MaxTokens)
    }

    /// Whether a token ends the completion, and why.
    pub(crate) fn at(&self, token: Token) -> Option<StopReason> {
        let eos = self.eos.contains(&token).then_some(StopReason::Eos);
        eos.or_else(|| self.tokens.contains(&token).then_some(StopReason::StopToken))
    }

    /// All tokens that end a completion.
    pub(crate) fn ends(&self) -> Vec<Token> {
        [&self.eos[..], &self.tokens].concat()
    }

    /// Where the text of a completion ends: at the earliest stop string.
    pub(crate) fn find_string(&self, text: &str) -> Option<usize> {
        let strings = self.strings.iter().filter(|string| !string.is_empty());
        let found = strings.filter_map(|string| Some((text.find(string.as_str())?, string.len())));
        found.min().map(|(at, len)| if self.keeps_stop { at + len } else { at })
    }

    /// Whether the text of the completion has the text of a token.
    pub(super) fn shows(&self, token: Token) -> bool {
        self.keeps_stop || !self.tokens.contains(&token)
    }

    /// The length of the part of `text` that can no longer become part of a stop
    /// string, so that it may be shown.
    pub(super) fn settled(&self, text: &str) -> usize {
        let pending = |stop: &String| {
            (1..stop.len())
                .rev()
                .filter(|&n| stop.is_char_boundary(n))
                .find(|&n| text.ends_with(&stop[..n]))
                .unwrap_or(0)
        };
        text.len() - self.strings.iter().map(pending).max().unwrap_or(0)
    }
}
