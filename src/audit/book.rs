//! All bets, and what they have won.

use std::sync::{Mutex, PoisonError};

use super::bet::Bet;
use super::bugs::BUGS;
use super::impossible::ImpossibleToken;
use super::laws::PlaceLaws;
use super::wealth::log_mean_exp;
use crate::chance::{Chance, Request, Seeded};
use crate::distribution::{Dist, Token};
use crate::sampling::ForEachRow;

/// The laws of a token's place, as [`PlaceLaws`] has them.
#[derive(Debug, Clone)]
pub struct KnownLaws {
    /// The target's, after all processors.
    pub target: Dist,
    /// The target's without any processor; none if there is no processor.
    pub raw_target: Option<Dist>,
    /// The draft model's, after its processors, if it is known.
    pub draft: Option<Dist>,
    /// The draft model's without any processor; none if there is none, or no draft model.
    pub raw_draft: Option<Dist>,
}

/// A token that is bet on.
#[derive(Debug, Clone)]
pub struct AuditedToken {
    /// It.
    pub token: Token,
    /// The laws of its place.
    pub laws: KnownLaws,
    /// Whether it ended its round, where the decoder has told; see [`super::RoundPlaces`].
    pub ended: Option<bool>,
}

/// One bet on each bug, and what tokens have shown.
#[derive(Debug)]
pub struct AuditBook {
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
    chance: Seeded,
    threads: ForEachRow,
    /// The laws of the target and the draft model at the place before.
    before: Option<(Dist, Option<Dist>)>,
}

impl AuditBook {
    /// No bet is decided yet; the decoder drafts one of these numbers of tokens.
    pub fn new(ks: &[usize], threads: ForEachRow) -> Self {
        Self {
            bets: BUGS.iter().map(|bug| Bet::new(bug, ks)).collect(),
            texts: 0,
            tokens: 0,
            impossible: Vec::new(),
            best: 0.0,
            chance: Seeded::new(Request { seed: 0, prompt: "audit", repeat: 0 }),
            threads,
            before: None,
        }
    }

    /// Begins a text.
    pub fn begin(&mut self) {
        self.bets.iter_mut().for_each(Bet::begin);
        self.before = None;
    }

    /// Bets on the next tokens of the text. Bets do not know of each other, so that each thread
    /// places some of them.
    pub fn place(&mut self, tokens: &[AuditedToken]) {
        let kept = self.before.as_ref().map(|(target, draft)| (target, draft.as_ref()));
        let before = tokens
            .iter()
            .map(|AuditedToken { laws, .. }| Some((&laws.target, laws.draft.as_ref())));
        let before = [kept].into_iter().chain(before);
        let places =
            tokens.iter().zip(before).map(|(AuditedToken { token, laws, ended }, before)| {
                let laws = PlaceLaws {
                    target: &laws.target,
                    raw_target: laws.raw_target.as_ref(),
                    before: before.map(|(target, _)| target),
                    draft: laws.draft.as_ref(),
                    draft_before: before.and_then(|(_, draft)| draft),
                    raw_draft: laws.raw_draft.as_ref(),
                };
                (laws, *token, *ended)
            });
        let places = places.collect::<Vec<_>>();
        let bets = self.bets.iter_mut().map(Mutex::new).collect::<Vec<_>>();
        let (begin, chance) = (self.tokens as u64, &self.chance);
        (self.threads.0)(bets.len(), &|i| {
            let mut bet = bets[i].lock().unwrap_or_else(PoisonError::into_inner);
            let mut chance = chance.clone();
            for (at, (laws, token, ended)) in (begin..).zip(&places) {
                chance.begin_round(at);
                bet.place(laws, (*token, *ended), &mut chance);
            }
        });
        self.tokens += tokens.len();
        if let Some(AuditedToken { laws, .. }) = tokens.last() {
            self.before = Some((laws.target.clone(), laws.draft.clone()));
        }
    }

    /// Ends the text.
    pub fn end(&mut self) {
        self.texts += 1;
        let logs = self.bets.iter().map(|bet| bet.wealth.log()).collect::<Vec<_>>();
        self.best = self.best.max(log_mean_exp(&logs));
    }
}
