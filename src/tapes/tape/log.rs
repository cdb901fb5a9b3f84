//! Decodings of which only the rounds were logged.

use serde::{Deserialize, Serialize};

/// A completion that another program decoded with drafts, and what its rounds accepted. It says
/// nothing about other drafters, other rules or longer drafts; only simulations use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TapeLog {
    /// The drafter, as its number among the drafters of the tape.
    pub drafter: usize,
    /// Id of the prompt.
    pub prompt: String,
    /// Its category.
    #[serde(default)]
    pub category: String,
    /// The acceptance rule, if it was logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<String>,
    /// The sampling setting, as an index of the samplings of the tape.
    pub sampling: usize,
    /// Number of prompt tokens, if it was logged.
    #[serde(default)]
    pub prompt_tokens: usize,
    /// Number of tokens of the completion.
    pub tokens: usize,
    /// The rounds.
    pub rounds: Vec<LoggedRound>,
    /// The sequence that was decoded by these rounds, by its index; `None` if the tape lacks it.
    #[serde(default, rename = "text", skip_serializing_if = "Option::is_none")]
    pub sequence: Option<usize>,
    /// Whether the order of the rounds is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unordered: bool,
}

/// Maximum number of drafted tokens of a round.
const MAX_DRAFTED: usize = 1 << 16;
/// Maximum number of tokens of a prompt and of a completion.
const MAX_TOKENS: usize = 1 << 24;

/// The accepted and drafted tokens of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "(usize, usize)", from = "(usize, usize)")]
pub struct LoggedRound {
    /// Accepted tokens.
    pub accepted: usize,
    /// Drafted tokens.
    pub drafted: usize,
}

impl From<(usize, usize)> for LoggedRound {
    fn from((accepted, drafted): (usize, usize)) -> Self {
        Self { accepted, drafted }
    }
}

impl From<LoggedRound> for (usize, usize) {
    fn from(LoggedRound { accepted, drafted }: LoggedRound) -> Self {
        (accepted, drafted)
    }
}

impl TapeLog {
    /// Checks that the rounds can produce the completion.
    ///
    /// # Errors
    /// If they cannot; says why.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(LoggedRound { accepted, drafted }) =
            self.rounds.iter().find(|r| r.accepted > r.drafted || r.drafted > MAX_DRAFTED)
        {
            return Err(format!(
                "a round accepts {accepted} of {drafted} drafted tokens: allowed are up to \
                 {MAX_DRAFTED}, and no more accepted than drafted"
            ));
        }
        if self.tokens == 0 || self.tokens.max(self.prompt_tokens) > MAX_TOKENS {
            return Err(format!(
                "a completion of {} tokens after a prompt of {}: allowed are 1 to {MAX_TOKENS} \
                 after up to {MAX_TOKENS}",
                self.tokens, self.prompt_tokens
            ));
        }
        // Every round but the last emits all of its accepted tokens and one more.
        let before = self.rounds.len().saturating_sub(1);
        let whole = self.rounds[..before].iter().map(|round| round.accepted + 1).sum::<usize>();
        if !self.unordered && whole >= self.tokens && before > 0 {
            return Err(format!(
                "its rounds before the last emit {whole} tokens, and the completion has {}",
                self.tokens
            ));
        }
        Ok(())
    }
}
