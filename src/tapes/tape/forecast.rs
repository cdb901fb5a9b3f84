//! Expected rounds and acceptance of a completion.

use serde::{Deserialize, Serialize};

/// How a completion ended; the names are those of `finish_reason` in OpenAI's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TapeEnd {
    /// It was cut at the maximum number of tokens.
    #[default]
    #[serde(rename = "length")]
    Cut,
    /// Its last token ended it.
    #[serde(rename = "stop")]
    Token,
}

/// The lengths on which the drafts of a completion depend. They also say how it ended: a completion
/// that was cut has `max_tokens` tokens, and one that its last token ended has fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapeLength {
    /// Tokens of the completion.
    pub tokens: usize,
    /// Maximum number of tokens that it could have had.
    pub max_tokens: usize,
}

impl TapeLength {
    /// Maximum number of tokens of a draft that begins at token `start`. A round leaves room for
    /// one token of the target.
    pub fn limit(self, start: usize) -> usize {
        self.max_tokens.saturating_sub(start + 1)
    }

    /// How many of them can be part of the completion. Its last token may be drafted if it ends the
    /// completion; tokens after it are not part of it.
    pub fn room(self, start: usize) -> usize {
        self.limit(start).min(self.tokens.saturating_sub(start))
    }
}

/// Expected rounds and tokens of decoding a completion with drafts, over all draws of the drafts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Forecast {
    /// The number of rounds, which equals the number of target passes.
    pub rounds: f64,
    /// Drafted tokens that become part of the completion.
    pub accepted: f64,
    /// Drafted tokens.
    pub proposed: f64,
    /// The number of rounds that draft exactly 0, 1, … tokens.
    pub drafts: Vec<f64>,
    /// The number of rounds that accept exactly 0, 1, … tokens.
    pub lengths: Vec<f64>,
    /// By position from 1: the number of rounds that draft it and accept all positions before.
    pub reached: Vec<f64>,
    /// By position from 1: the number of these rounds that accept it.
    pub survived: Vec<f64>,
    /// The probability that a round begins at each token.
    pub begins: Vec<f64>,
    /// The probability that a round begins there whose draft ends with the completion, although it
    /// could have more tokens.
    pub ends: Vec<f64>,
}

/// Sums over all divisions of a completion into rounds. For a draft that begins at a token, `draft`
/// appends the probabilities that at least 1, 2, … of its tokens survive, at most
/// [`TapeLength::room`] of them. It returns the length of the draft, and that of a draft which
/// follows the completion to its end.
pub fn forecast(
    sequence: TapeLength,
    mut draft: impl FnMut(usize, &mut Vec<f64>) -> [usize; 2],
) -> Forecast {
    let none = vec![0.0; sequence.tokens];
    let mut found = Forecast { begins: none.clone(), ends: none, ..Forecast::default() };
    if let Some(first) = found.begins.first_mut() {
        *first = 1.0;
    }
    let mut survival = Vec::new();
    for start in 0..sequence.tokens {
        let begins = found.begins[start];
        if begins == 0.0 {
            continue;
        }
        survival.clear();
        let [drafted, at_end] = draft(start, &mut survival);
        if at_end < drafted {
            found.ends[start] = begins * survival.last().copied().unwrap_or(0.0);
        }
        found.drafts.resize(found.drafts.len().max(drafted + 1), 0.0);
        for (length, count) in [(drafted, begins - found.ends[start]), (at_end, found.ends[start])]
        {
            found.proposed += count * length as f64;
            found.drafts[length] += count;
        }
        found.round(start, &survival);
    }
    found
}

impl Forecast {
    /// Adds the round that may begin at a token.
    fn round(&mut self, start: usize, survival: &[f64]) {
        let begins = self.begins[start];
        self.rounds += begins;
        self.accepted += begins * survival.iter().sum::<f64>();
        let positions = self.lengths.len().max(survival.len() + 1);
        self.lengths.resize(positions, 0.0);
        self.reached.resize(positions - 1, 0.0);
        self.survived.resize(positions - 1, 0.0);
        let mut at_least = 1.0;
        for accepted in 0..=survival.len() {
            let more = survival.get(accepted).copied().unwrap_or(0.0);
            if accepted < survival.len() {
                self.reached[accepted] += begins * at_least;
                self.survived[accepted] += begins * more;
            }
            let exactly = begins * (at_least - more);
            self.lengths[accepted] += exactly;
            // A token of the target follows the accepted ones.
            if let Some(next) = self.begins.get_mut(start + accepted + 1) {
                *next += exactly;
            }
            at_least = more;
        }
    }
}
