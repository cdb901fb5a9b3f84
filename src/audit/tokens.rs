//! Bets on tokens whose distributions are known, from any source.

use super::bet::{Bet, is_kept};
use super::copies::Copies;
use super::distributions::{PreviousDists, SequenceDists};
use super::impossible::ImpossibleToken;
use super::learnt::LearntBet;
use super::placed::BugAtToken;
use super::settings::{SettingAtToken, SettingsBet, settings_at};
use super::unknown::UNKNOWN_BUGS;
use super::wealth::log_mean_exp;
use crate::bugs::{PositionMasses, audited};
use crate::core::chance::{Chance, Purpose, Request, Seeded, Site};
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::sampling::ForEachRow;

/// What bets on known distributions need at a token.
struct SeenAtToken {
    /// For each bug, if a bet can be placed.
    bugs: Vec<Option<BugAtToken>>,
    settings: Vec<SettingAtToken>,
}

/// An audit of sequences, one after the other: [`Self::begin`], then [`Self::read`] for each part
/// of the sequence, then [`Self::end`].
#[derive(Debug)]
pub struct TokenAudit {
    chance: Seeded,
    threads: ForEachRow,
    prompt: String,
    repeat: u32,
    at: usize,
    before: Option<PreviousDists>,
    /// The bets on known bugs.
    pub bets: Vec<Bet>,
    /// The bet on other settings.
    pub settings: SettingsBet,
    /// The bets on unknown bugs.
    pub learnt: Vec<LearntBet>,
    /// Numbers of tokens of the sequences that were read.
    pub lengths: Vec<usize>,
    /// Number of all their tokens.
    pub tokens: usize,
    /// The sequences that repeat another one.
    pub copies: Copies,
    /// Tokens of probability 0.
    pub impossible: Vec<ImpossibleToken>,
    /// Logarithm of the largest wealth so far of a bet that is split over all bugs.
    pub best: f64,
}

impl TokenAudit {
    /// An audit of a decoder that drafts one of these numbers of tokens per round.
    pub fn new(ks: &[usize]) -> Self {
        Self {
            chance: Seeded::new(Request { seed: 0, prompt: "audit", repeat: 0 }),
            threads: ForEachRow::default(),
            prompt: String::new(),
            repeat: 0,
            at: 0,
            before: None,
            bets: audited().map(|bug| Bet::new(bug, ks)).collect(),
            settings: SettingsBet::new(),
            learnt: UNKNOWN_BUGS.iter().map(LearntBet::new).collect(),
            lengths: Vec::new(),
            tokens: 0,
            copies: Copies::default(),
            impossible: Vec::new(),
            best: 0.0,
        }
    }

    /// Number of bets that the stake is split over.
    pub fn stakes(&self) -> usize {
        self.bets.len() + 1 + self.learnt.len()
    }

    /// The same audit on an engine's threads; bets are independent of each other.
    pub(super) fn on(self, threads: ForEachRow) -> Self {
        Self { threads, ..self }
    }

    /// Starts a new sequence.
    pub fn begin(&mut self, prompt: &str, repeat: u32) {
        for one in &mut self.bets {
            one.begin();
        }
        for one in &mut self.learnt {
            one.begin();
        }
        prompt.clone_into(&mut self.prompt);
        (self.repeat, self.at, self.before) = (repeat, 0, None);
    }

    /// Reads the next part of the sequence. `ended` says for each token whether it ended its round,
    /// if the decoder reported that (see `positions.rs`).
    ///
    /// # Errors
    /// If a token has no distribution, vocabularies differ, or a token is outside the vocabulary.
    pub fn read(
        &mut self,
        part: &[Token],
        dists: SequenceDists,
        ended: Option<&[bool]>,
    ) -> Result<(), Error> {
        dists.check(part)?;
        let impossible =
            part.iter().enumerate().filter(|&(i, &token)| dists.target[i].p(token) <= 0.0);
        let sequence = self.lengths.len();
        self.impossible.extend(impossible.map(|(i, &token)| ImpossibleToken {
            sequence,
            prompt: self.prompt.clone(),
            repeat: self.repeat,
            at: self.at + i,
            token,
            gap: f64::INFINITY,
        }));
        self.copies.read(part, &dists.target);
        let (begin, before) = (self.tokens, self.before.as_ref());
        let ended = |at: usize| ended.and_then(|ended| ended.get(at).copied());
        let seen = self.seen(part, &dists, before);
        let drafted = dists.draft.iter().flatten().map(Dist::argmax).collect::<Vec<_>>();
        self.threads.change(&mut self.bets, |bug, bet| {
            for (at, seen) in seen.iter().enumerate() {
                seen.bugs[bug].inspect(|seen| bet.place(begin + at, seen, ended(at)));
            }
        });
        for seen in &seen {
            self.settings.place(&seen.settings);
        }
        self.threads.change(&mut self.learnt, |_, bet| {
            for (at, &token) in part.iter().enumerate() {
                bet.place(&dists.position(at, before), token, drafted.get(at).copied());
            }
        });
        self.tokens += part.len();
        self.at += part.len();
        self.before = dists.last().or(self.before.take());
        Ok(())
    }

    /// What bets on bugs need to know at each position. Distributions do not depend on the bets, so
    /// threads first share the positions. Then they share the bets, each of which goes through all
    /// positions.
    fn seen(
        &self,
        part: &[Token],
        dists: &SequenceDists,
        before: Option<&PreviousDists>,
    ) -> Vec<SeenAtToken> {
        self.threads.map(part.len(), |at| {
            let number = self.tokens + at;
            let mut chance = self.chance.clone();
            chance.begin_round(number as u64);
            let site = Site { purpose: Purpose::Target, node: 0 };
            let drawn = is_kept(number, number + 1).then(|| chance.uniform(site));
            let here = dists.position(at, before);
            let position = PositionMasses::of(&here);
            let bugs = self.bets.iter().map(|bet| bet.bug.distribution_at(&position));
            let bugs = bugs.map(|dist| dist.map(|dist| dist.at(part[at], &position, drawn)));
            SeenAtToken { bugs: bugs.collect(), settings: settings_at(&here, part[at]) }
        })
    }

    /// Ends the sequence.
    pub fn end(&mut self) {
        self.lengths.push(self.at);
        self.copies.end();
        let learnt = self.learnt.iter().map(|bet| bet.wealth.log());
        let known = self.bets.iter().map(|bet| bet.wealth.log()).chain([self.settings.log()]);
        let logs = known.chain(learnt).collect::<Vec<_>>();
        self.best = self.best.max(log_mean_exp(&logs));
    }
}
