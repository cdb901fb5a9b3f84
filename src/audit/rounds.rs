//! Whether rounds accept as many drafted tokens as their rule predicts for the completion.
//!
//! Given the completion, q and the acceptance rule give the probability that a drafted token was
//! accepted ([`AcceptanceRule`]). So the rounds that a decoder reports are observations, too. They
//! show errors that leave the distribution of tokens unchanged: a draft sampled with other settings
//! than stated, or a missing bonus token.

use serde::Serialize;

use super::drafted::DraftedOdds;
use super::wealth::{Wealth, log_mean_exp, log10};
use crate::tapes::tape::{
    AcceptanceRule, LossPlace, ShareChange, ShareChanges, TokenOdds, early_and_late,
};

/// A round that a decoder reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportedRound {
    /// The tokens that it added to the completion.
    pub tokens: usize,
    /// Drafted tokens that it accepted, including those after the end of the completion.
    pub accepted: usize,
    /// Drafted tokens; `None` if they were not reported.
    pub drafted: Option<usize>,
}

/// Bets that rounds accept fewer, or more, drafted tokens than their rule predicts.
#[derive(Debug, Clone)]
pub struct RoundAudit {
    rule: AcceptanceRule,
    /// Drafted tokens of a round that does not report them.
    k: Option<usize>,
    rounds: usize,
    positions: Vec<AcceptanceAt>,
    places: Places,
    fewer: Wealth,
    more: Wealth,
    best: f64,
}

/// Drafted tokens by their place in drafts and completions.
#[derive(Debug, Clone, Copy, Default)]
struct Places {
    first: Excess,
    later: Excess,
    early: Excess,
    late: Excess,
}

/// How many more drafted tokens were accepted than their rule accepts on average.
#[derive(Debug, Clone, Copy, Default)]
struct Excess {
    decided: f64,
    excess: f64,
    variance: f64,
}

impl Excess {
    fn add(&mut self, accepted: bool, odds: f64) {
        self.decided += 1.0;
        self.excess += f64::from(u8::from(accepted)) - odds;
        self.variance += odds * (1.0 - odds);
    }

    fn change(self) -> Option<ShareChange> {
        let Self { decided, excess, variance } = self;
        let change = ShareChange { change: excess / decided, error: variance.sqrt() / decided };
        (decided > 0.0).then_some(change)
    }
}

impl Places {
    fn changes(self) -> Option<ShareChanges> {
        Some(ShareChanges {
            first: self.first.change()?,
            later: self.later.change()?,
            early: self.early.change()?,
            late: self.late.change()?,
        })
    }
}

/// Drafted tokens at one position of their drafts.
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
    /// The registered verifier with this rule.
    pub rule: &'static str,
    /// Number of rounds that were audited.
    pub rounds: usize,
    /// By position in the draft.
    pub positions: Vec<AcceptanceAt>,
    /// The shares of accepted tokens minus the expected ones, by place.
    pub changes: Option<ShareChanges>,
    /// Where fewer tokens are accepted than expected, if that shows.
    pub place: Option<LossPlace>,
    /// log₁₀ of the largest combined wealth of the bets on fewer and on more accepted tokens.
    pub log10_e: f64,
    /// log₁₀ of the largest wealth of the bet on fewer.
    pub log10_e_fewer: f64,
    /// log₁₀ of the largest wealth of the bet on more.
    pub log10_e_more: f64,
}

/// Rounding differences change the probability of an acceptance by less than this. Where a
/// probability is closer to certainty, bets assume this distance, which makes them win less.
const ARITHMETIC: f64 = 1e-3;

impl RoundAudit {
    /// An audit of rounds with this rule, which draft `k` tokens where they report no number.
    pub fn new(rule: AcceptanceRule, k: Option<usize>) -> Self {
        let (fewer, more) = (Wealth::default(), Wealth::default());
        let (positions, places) = (Vec::new(), Places::default());
        Self { rule, k, rounds: 0, positions, places, fewer, more, best: 0.0 }
    }

    /// Audits the rounds of a completion with these odds. Drafts may be shorter near its end, so
    /// rounds that could draft beyond it are skipped. So are rounds that report no number of
    /// drafted tokens if no K is known.
    pub fn read(&mut self, odds: &DraftedOdds, rounds: &[ReportedRound]) {
        let mut begin = 0;
        for round in rounds {
            let drafted = round.drafted.or(self.k);
            if let Some(drafted) = drafted.and_then(|drafted| odds.of_draft(begin, drafted)) {
                let place = begin as f64 / odds.tokens() as f64;
                self.round(&drafted, round.accepted, early_and_late(place));
            }
            begin += round.tokens;
        }
        self.best = self.best.max(log_mean_exp(&[self.fewer.log(), self.more.log()]));
    }

    fn round(&mut self, drafted: &[TokenOdds], accepted: usize, [early, late]: [bool; 2]) {
        self.rounds += 1;
        self.positions.resize(self.positions.len().max(drafted.len()), AcceptanceAt::default());
        let mut before = 1.0;
        let survival = self.rule.survival(drafted.iter().copied());
        for (at, survival) in survival.enumerate().take(accepted + 1) {
            let odds = if before > 0.0 { survival / before } else { 0.0 };
            let position = &mut self.positions[at];
            position.reached += 1;
            position.expected += odds;
            position.accepted += usize::from(at < accepted);
            let Places { first, later, .. } = &mut self.places;
            (if at == 0 { first } else { later }).add(at < accepted, odds);
            if early {
                self.places.early.add(at < accepted, odds);
            }
            if late {
                self.places.late.add(at < accepted, odds);
            }
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

    /// The verdict; `None` if no round was audited.
    pub fn verdict(&self) -> Option<RoundVerdict> {
        let changes = self.places.changes();
        (self.rounds > 0).then(|| RoundVerdict {
            rule: self.rule.verifier(),
            changes,
            place: changes.and_then(|changes| changes.place()),
            rounds: self.rounds,
            positions: self.positions.clone(),
            log10_e: log10(self.best),
            log10_e_fewer: log10(self.fewer.best()),
            log10_e_more: log10(self.more.best()),
        })
    }
}
