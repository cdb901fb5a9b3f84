//! Decodings of which only the rounds were logged.

use serde::{Deserialize, Serialize};

/// A text that was decoded with drafts elsewhere, and what its rounds accepted. It tells nothing
/// of other drafters and rules, and of a longer draft nothing at all; it is there for simulations.
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
    /// The rule that decided on its drafts, if that was logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<String>,
    /// The sampling setting, as an index of the samplings of the tape.
    pub sampling: usize,
    /// The tokens of the prompt, if their number was logged.
    #[serde(default)]
    pub prompt_tokens: usize,
    /// How many tokens the text has.
    pub tokens: usize,
    /// The rounds.
    pub rounds: Vec<LoggedRound>,
    /// Whether only the number of rounds of each kind is known, and not their order.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unordered: bool,
}

/// No draft has more tokens.
const MOST_DRAFTED: usize = 1 << 16;
/// No text and no prompt has more tokens.
const MOST_TOKENS: usize = 1 << 24;

/// A round: the tokens that were accepted, and those that were drafted.
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
    /// Checks that the rounds can be those of the text.
    ///
    /// # Errors
    /// Says why they cannot.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(LoggedRound { accepted, drafted }) =
            self.rounds.iter().find(|r| r.accepted > r.drafted || r.drafted > MOST_DRAFTED)
        {
            return Err(format!(
                "a round accepts {accepted} of {drafted} drafted tokens: allowed are up to \
                 {MOST_DRAFTED}, and no more accepted than drafted"
            ));
        }
        if self.tokens == 0 || self.tokens.max(self.prompt_tokens) > MOST_TOKENS {
            return Err(format!(
                "a text of {} tokens after {}: allowed are 1 to {MOST_TOKENS} after up to as many",
                self.tokens, self.prompt_tokens
            ));
        }
        // Every round but the last emits all that it has accepted, and one token more.
        let before = self.rounds.len().saturating_sub(1);
        let whole = self.rounds[..before].iter().map(|round| round.accepted + 1).sum::<usize>();
        if !self.unordered && whole >= self.tokens && before > 0 {
            return Err(format!(
                "its rounds but the last emit {whole} tokens, and the text has {}",
                self.tokens
            ));
        }
        Ok(())
    }
}
