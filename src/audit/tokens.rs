//! Bets on tokens whose laws are known, wherever these are from.

use super::bet::Bet;
use super::bugs::BUGS;
use super::laws::{PlaceLaws, TextLaws};
use super::wealth::log_mean_exp;
use crate::chance::{Chance, Request, Seeded};
use crate::distribution::{Dist, Token};
use crate::error::Error;

/// A token that an exact decoder cannot have drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImpossibleToken {
    /// The prompt.
    pub prompt: String,
    /// Which text of the prompt.
    pub repeat: u32,
    /// The token's place in the text.
    pub at: usize,
    /// The token.
    pub token: Token,
}

/// An audit of texts, one after the other: [`Self::begin`], the text part by part, [`Self::end`].
#[derive(Debug)]
pub struct TokenAudit {
    chance: Seeded,
    prompt: String,
    repeat: u32,
    at: usize,
    before: Option<Dist>,
    /// The bets.
    pub bets: Vec<Bet>,
    /// Texts that were read.
    pub texts: usize,
    /// Their tokens.
    pub tokens: usize,
    /// Tokens of probability 0.
    pub impossible: Vec<ImpossibleToken>,
    /// The largest wealth so far of a bet that is divided between all bugs, as a logarithm.
    pub best: f64,
}

impl TokenAudit {
    /// An audit of a decoder that drafts one of these numbers of tokens.
    pub fn new(ks: &[usize]) -> Self {
        Self {
            chance: Seeded::new(Request { seed: 0, prompt: "audit", repeat: 0 }),
            prompt: String::new(),
            repeat: 0,
            at: 0,
            before: None,
            bets: BUGS.iter().map(|bug| Bet::new(bug, ks)).collect(),
            texts: 0,
            tokens: 0,
            impossible: Vec::new(),
            best: 0.0,
        }
    }

    /// Begins a text.
    pub fn begin(&mut self, prompt: &str, repeat: u32) {
        self.bets.iter_mut().for_each(Bet::begin);
        prompt.clone_into(&mut self.prompt);
        (self.repeat, self.at, self.before) = (repeat, 0, None);
    }

    /// Goes on with a part of the text.
    ///
    /// # Errors
    /// If there is not one law for each token, laws are of different vocabularies, or a token is
    /// of none.
    pub fn read(&mut self, part: &[Token], laws: TextLaws) -> Result<(), Error> {
        laws.check(part)?;
        for (i, &token) in part.iter().enumerate() {
            let before = self.before.replace(laws.target[i].clone());
            self.token(token, &laws.place(i, before.as_ref()));
        }
        Ok(())
    }

    /// Ends a text.
    pub fn end(&mut self) {
        self.texts += 1;
        let logs = self.bets.iter().map(|bet| bet.wealth.log()).collect::<Vec<_>>();
        self.best = self.best.max(log_mean_exp(&logs));
    }

    fn token(&mut self, token: Token, laws: &PlaceLaws<'_>) {
        if laws.target.p(token) <= 0.0 {
            let (prompt, repeat, at) = (self.prompt.clone(), self.repeat, self.at);
            self.impossible.push(ImpossibleToken { prompt, repeat, at, token });
        }
        self.chance.begin_round(self.tokens as u64);
        self.tokens += 1;
        self.at += 1;
        for bet in &mut self.bets {
            bet.place(laws, token, &mut self.chance);
        }
    }
}
