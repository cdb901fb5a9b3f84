//! Expected rounds and acceptance of a text.

/// How a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapeEnd {
    /// It has as many tokens as were asked for.
    Cut,
    /// Its last token ended it.
    Token,
}

/// A text as far as its rounds depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapeLength {
    /// Its tokens.
    pub tokens: usize,
    /// How it ended.
    pub end: TapeEnd,
}

impl TapeLength {
    /// How many tokens of the text a draft can have that begins at token `start`. A round of a
    /// text that is cut leaves room for one token of the target's; an end token may be drafted,
    /// and what follows it is no longer part of the text.
    pub fn room(self, start: usize) -> usize {
        let left = self.tokens.saturating_sub(start);
        match self.end {
            TapeEnd::Cut => left.saturating_sub(1),
            TapeEnd::Token => left,
        }
    }
}

/// What decoding a text with drafts is expected to take, over all draws of the drafts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Forecast {
    /// The number of rounds, which is that of target passes.
    pub rounds: f64,
    /// Drafted tokens that are kept as part of the text.
    pub accepted: f64,
    /// Drafted tokens, of those within [`TapeLength::room`].
    pub proposed: f64,
    /// The number of rounds that accept exactly 0, 1, … tokens.
    pub lengths: Vec<f64>,
    /// The probability that a round begins at each token.
    pub begins: Vec<f64>,
}

/// Follows all ways in which rounds can divide a text. `survival` gives, for a draft that begins
/// at a token and has at most so many tokens, the probabilities that at least 1, 2, … of them
/// survive, one for each drafted token.
pub fn forecast(text: TapeLength, mut survival: impl FnMut(usize, usize) -> Vec<f64>) -> Forecast {
    let mut found = Forecast { begins: vec![0.0; text.tokens], ..Forecast::default() };
    if let Some(first) = found.begins.first_mut() {
        *first = 1.0;
    }
    for start in 0..text.tokens {
        let begins = found.begins[start];
        if begins == 0.0 {
            continue;
        }
        let survival = survival(start, text.room(start));
        found.rounds += begins;
        found.proposed += begins * survival.len() as f64;
        found.accepted += begins * survival.iter().sum::<f64>();
        found.lengths.resize(found.lengths.len().max(survival.len() + 1), 0.0);
        let at_least = |tokens: usize| match tokens {
            0 => 1.0,
            _ => survival.get(tokens - 1).copied().unwrap_or(0.0),
        };
        for accepted in 0..=survival.len() {
            let exactly = begins * (at_least(accepted) - at_least(accepted + 1));
            found.lengths[accepted] += exactly;
            // After the accepted tokens comes one of the target's.
            if let Some(next) = found.begins.get_mut(start + accepted + 1) {
                *next += exactly;
            }
        }
    }
    found
}
