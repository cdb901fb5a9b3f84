//! Whether rounds accept as many drafted tokens as their rule does, given the text.
//!
//! Given the text, a rule and q tell how probable it is that a drafted token was accepted
//! ([`ChainLaw`]). Rounds that a decoder has told are observations, too, and show what leaves
//! the law of tokens as it is: a draft that is drawn otherwise than stated, or a missing bonus.

use serde::Serialize;

use super::wealth::{Wealth, log_mean_exp, log10};
use crate::tape::{ChainLaw, TokenOdds};

/// A round that a decoder has told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToldRound {
    /// The tokens that it gave the text.
    pub tokens: usize,
    /// Drafted tokens that it accepted, with those behind the end of the text.
    pub accepted: usize,
    /// Drafted tokens; `None` if that was not told.
    pub drafted: Option<usize>,
}

/// Bets that rounds accept fewer or more drafted tokens than their rule does.
#[derive(Debug, Clone)]
pub struct RoundAudit {
    law: ChainLaw,
    /// Drafted tokens of a round that does not tell.
    k: Option<usize>,
    rounds: usize,
    positions: Vec<AcceptanceAt>,
    fewer: Wealth,
    more: Wealth,
    best: f64,
}

/// Drafted tokens at a position of their drafts.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct AcceptanceAt {
    /// Those whose predecessors in the draft were all accepted.
    pub reached: usize,
    /// Those of them that were accepted.
    pub accepted: usize,
    /// How many of them the rule accepts on average.
    pub expected: f64,
}

/// What rounds show. `docs/audit.md` describes the fields.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoundVerdict {
    /// The registered verifier with the rule.
    pub rule: &'static str,
    /// The rounds that were looked at.
    pub rounds: usize,
    /// By position in the draft.
    pub positions: Vec<AcceptanceAt>,
    /// log₁₀ of the largest wealth of a bet on fewer and on more accepted tokens, together.
    pub log10_e: f64,
    /// log₁₀ of the most that the bet on fewer ever had.
    pub log10_e_fewer: f64,
    /// log₁₀ of the most that the bet on more ever had.
    pub log10_e_more: f64,
}

/// Other arithmetic moves the probability of an acceptance by less. Within that of certainty, a
/// bet against certainty takes it to be so improbable, which makes it win less.
const ARITHMETIC: f64 = 1e-3;

impl RoundAudit {
    /// An audit of rounds with this rule, which draft so many tokens where they do not tell.
    pub fn new(law: ChainLaw, k: Option<usize>) -> Self {
        let (fewer, more) = (Wealth::default(), Wealth::default());
        Self { law, k, rounds: 0, positions: Vec::new(), fewer, more, best: 0.0 }
    }

    /// Goes through the rounds of a text, of whose tokens these are the odds. Near its end drafts
    /// may be shorter: rounds that could draft beyond it are left out, and so are those that do
    /// not tell how many tokens they draft where no K is known.
    pub fn read(&mut self, odds: &[TokenOdds], rounds: &[ToldRound]) {
        let mut begin = 0;
        for round in rounds {
            let drafted = round.drafted.or(self.k).filter(|drafted| begin + drafted < odds.len());
            if let Some(drafted) = drafted {
                self.round(&odds[begin..][..drafted], round.accepted);
            }
            begin += round.tokens;
        }
        self.best = self.best.max(log_mean_exp(&[self.fewer.log(), self.more.log()]));
    }

    fn round(&mut self, drafted: &[TokenOdds], accepted: usize) {
        self.rounds += 1;
        self.positions.resize(self.positions.len().max(drafted.len()), AcceptanceAt::default());
        let mut before = 1.0;
        let survival = self.law.survival(drafted.iter().copied());
        for (at, survival) in survival.enumerate().take(accepted + 1) {
            let odds = if before > 0.0 { survival / before } else { 0.0 };
            let position = &mut self.positions[at];
            position.reached += 1;
            position.expected += odds;
            position.accepted += usize::from(at < accepted);
            let [fewer, more] = if at < accepted {
                [0.0, 1.0 / odds.max(ARITHMETIC)]
            } else {
                [1.0 / (1.0 - odds).max(ARITHMETIC), 0.0]
            };
            self.fewer.bet(fewer);
            self.more.bet(more);
            before = survival;
        }
    }

    /// What the rounds show; `None` if none could be looked at.
    pub fn verdict(&self) -> Option<RoundVerdict> {
        (self.rounds > 0).then(|| RoundVerdict {
            rule: self.law.verifier(),
            rounds: self.rounds,
            positions: self.positions.clone(),
            log10_e: log10(self.best),
            log10_e_fewer: log10(self.fewer.best()),
            log10_e_more: log10(self.more.best()),
        })
    }
}
