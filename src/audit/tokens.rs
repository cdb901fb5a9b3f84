//! Bets on tokens whose laws are known, wherever these are from.

use std::sync::{Mutex, OnceLock, PoisonError};

use super::bet::{Bet, is_kept};
use super::bugs::BUGS;
use super::impossible::ImpossibleToken;
use super::laws::{LawsBefore, TextLaws};
use super::learnt::LearntBet;
use super::masses::PlaceMasses;
use super::placed::BugAtToken;
use super::unknown::UNKNOWN_BUGS;
use super::wealth::log_mean_exp;
use crate::chance::{Chance, Purpose, Request, Seeded, Site};
use crate::distribution::{Dist, Token};
use crate::error::Error;
use crate::sampling::ForEachRow;

/// An audit of texts, one after the other: [`Self::begin`], the text part by part, [`Self::end`].
#[derive(Debug)]
pub struct TokenAudit {
    chance: Seeded,
    threads: ForEachRow,
    prompt: String,
    repeat: u32,
    at: usize,
    before: Option<LawsBefore>,
    /// The bets on known bugs.
    pub bets: Vec<Bet>,
    /// Those on others.
    pub learnt: Vec<LearntBet>,
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
            threads: ForEachRow::default(),
            prompt: String::new(),
            repeat: 0,
            at: 0,
            before: None,
            bets: BUGS.iter().map(|bug| Bet::new(bug, ks)).collect(),
            learnt: UNKNOWN_BUGS.iter().map(LearntBet::new).collect(),
            texts: 0,
            tokens: 0,
            impossible: Vec::new(),
            best: 0.0,
        }
    }

    /// The same on an engine's threads: bets do not know of each other.
    pub(super) fn on(self, threads: ForEachRow) -> Self {
        Self { threads, ..self }
    }

    /// Begins a text.
    pub fn begin(&mut self, prompt: &str, repeat: u32) {
        self.bets.iter_mut().for_each(Bet::begin);
        self.learnt.iter_mut().for_each(LearntBet::begin);
        prompt.clone_into(&mut self.prompt);
        (self.repeat, self.at, self.before) = (repeat, 0, None);
    }

    /// Goes on with a part of the text; `ended` says of each token whether it ended its round,
    /// where the decoder has told (see `places.rs`).
    ///
    /// # Errors
    /// If there is not one law for each token, laws are of different vocabularies, or a token is
    /// of none.
    pub fn read(
        &mut self,
        part: &[Token],
        laws: TextLaws,
        ended: Option<&[bool]>,
    ) -> Result<(), Error> {
        laws.check(part)?;
        self.note_impossible(part, &laws.target);
        let (begin, before) = (self.tokens, self.before.as_ref());
        let ended = |at: usize| ended.and_then(|ended| ended.get(at).copied());
        let seen = self.seen(part, &laws, before);
        let drafted = laws.draft.iter().flatten().map(Dist::argmax).collect::<Vec<_>>();
        let learnt = self.learnt.iter_mut().map(EitherBet::Learnt);
        let bets = self.bets.iter_mut().enumerate().map(EitherBet::Known).chain(learnt);
        let bets = bets.map(Mutex::new).collect::<Vec<_>>();
        (self.threads.0)(bets.len(), &|bet| {
            let mut bet = bets[bet].lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *bet {
                EitherBet::Known((bug, bet)) => {
                    for (at, seen) in seen.iter().enumerate() {
                        let seen = seen.get().and_then(|seen| seen[*bug]);
                        seen.inspect(|seen| bet.place(begin + at, seen, ended(at)));
                    }
                }
                EitherBet::Learnt(bet) => {
                    for (at, &token) in part.iter().enumerate() {
                        bet.place(&laws.place(at, before), token, drafted.get(at).copied());
                    }
                }
            }
        });
        self.tokens += part.len();
        self.at += part.len();
        self.before = laws.last().or(self.before.take());
        Ok(())
    }

    fn note_impossible(&mut self, part: &[Token], target: &[Dist]) {
        let impossible = part.iter().enumerate().filter(|&(i, &token)| target[i].p(token) <= 0.0);
        let impossible = impossible.map(|(i, &token)| ImpossibleToken {
            prompt: self.prompt.clone(),
            repeat: self.repeat,
            at: self.at + i,
            token,
            gap: f64::INFINITY,
        });
        self.impossible.extend(impossible);
    }

    /// What bets on bugs need of each place. Laws do not depend on what was bet, so threads share
    /// the places first; then they share the bets, each of which goes through all places.
    fn seen(
        &self,
        part: &[Token],
        laws: &TextLaws,
        before: Option<&LawsBefore>,
    ) -> Vec<OnceLock<Vec<Option<BugAtToken>>>> {
        let seen = part.iter().map(|_| OnceLock::new()).collect::<Vec<_>>();
        (self.threads.0)(part.len(), &|at| {
            let number = self.tokens + at;
            let mut chance = self.chance.clone();
            chance.begin_round(number as u64);
            let site = Site { purpose: Purpose::Target, node: 0 };
            let drawn = is_kept(number, number + 1).then(|| chance.uniform(site));
            let place = PlaceMasses::of(&laws.place(at, before));
            let bugs = self.bets.iter().map(|bet| (bet.bug.law)(&place));
            let bugs = bugs.map(|law| law.map(|law| law.at(part[at], &place, drawn)));
            seen[at].get_or_init(|| bugs.collect());
        });
        seen
    }

    /// Ends a text.
    pub fn end(&mut self) {
        self.texts += 1;
        let learnt = self.learnt.iter().map(|bet| bet.wealth.log());
        let logs = self.bets.iter().map(|bet| bet.wealth.log()).chain(learnt).collect::<Vec<_>>();
        self.best = self.best.max(log_mean_exp(&logs));
    }
}

/// A bet, while it is placed.
enum EitherBet<'b> {
    Known((usize, &'b mut Bet)),
    Learnt(&'b mut LearntBet),
}
