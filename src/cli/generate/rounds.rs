//! The rounds of a completion one by one, for JSON.

use serde::Serialize;

use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::round::RoundEvent;
use crate::method::decode::Observer;

/// How a round ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RoundEnd {
    /// A drafted token was rejected, and another one drawn in its place.
    Corrected,
    /// All drafted tokens were accepted, and another one drawn.
    Bonus,
    /// Nothing was drafted, and a token drawn.
    Plain,
    /// An accepted token ended the completion.
    Stopped,
}

impl RoundEnd {
    pub(super) fn of(event: &RoundEvent<'_>) -> Self {
        let last = event.verdict.path.last().copied();
        if event.truncated {
            Self::Stopped
        } else if event.draft.is_empty() {
            Self::Plain
        } else if event.draft.children(last).next().is_some() {
            Self::Corrected
        } else {
            Self::Bonus
        }
    }
}

/// A round of a completion.
#[derive(Debug, Clone, Serialize)]
struct LoggedRound {
    proposed: usize,
    accepted: usize,
    tokens: Vec<Token>,
    end: RoundEnd,
}

/// The rounds of a completion, and log p of its tokens.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct RoundLog {
    /// The natural logarithm of each token's probability in the target's processed distribution;
    /// −∞, which is null in JSON, for a token that only an approximate verifier emits.
    logprobs: Vec<f64>,
    rounds: Vec<LoggedRound>,
}

impl Observer for RoundLog {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        let path = &event.verdict.path;
        let places = [None].into_iter().chain(path.iter().copied().map(Some));
        let drawn = places.zip(event.emitted);
        self.logprobs.extend(drawn.map(|(at, &token)| event.target(at).p(token).ln()));
        self.rounds.push(LoggedRound {
            proposed: event.draft.len(),
            accepted: path.len(),
            tokens: event.emitted.to_vec(),
            end: RoundEnd::of(event),
        });
        Ok(())
    }
}
