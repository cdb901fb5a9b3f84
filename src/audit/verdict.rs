//! What an audit says.

use serde::Serialize;

use super::bet::Bet;
use super::impossible::ImpossibleToken;
use super::learnt::LearntBet;
use super::tokens::TokenAudit;
use super::wealth::log10;

/// What is called a refutation.
#[derive(Debug, Clone, Copy)]
pub struct AuditLimits {
    /// How often exact texts may be refuted.
    pub level: f64,
    /// Gaps of logits that other arithmetic may reverse: tokens of probability 0 with no larger
    /// one are no evidence.
    pub tie: f64,
}

/// The verdict of an audit. `docs/audit.md` describes the fields.
#[derive(Debug, Clone, Serialize)]
pub struct AuditVerdict {
    /// Texts that were read.
    pub texts: usize,
    /// Their tokens.
    pub tokens: usize,
    /// How often exact texts may be refuted.
    pub level: f64,
    /// Whether these are.
    pub refuted: bool,
    /// log₁₀ of the largest wealth of a bet that is divided between all bugs.
    pub log10_e: f64,
    /// The same for the texts without speculation.
    pub plain_log10_e: Option<f64>,
    /// Tokens with p = 0 that are within a tie of one with p > 0.
    pub ties: usize,
    /// Other tokens that the target's law does not have.
    pub impossible: usize,
    /// The first of them.
    #[serde(skip)]
    pub first_impossible: Option<ImpossibleToken>,
    /// The bug whose bet won most, if it refutes the texts by itself.
    pub bug: Option<&'static str>,
    /// The bets that could be placed, the best first.
    pub bets: Vec<AuditedBug>,
    /// The bugs on which none could be.
    pub not_placed: Vec<&'static str>,
}

/// A bet.
#[derive(Debug, Clone, Serialize)]
pub struct AuditedBug {
    /// The bug.
    pub bug: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Where it was seen or reported.
    pub seen: &'static str,
    /// How many tokens the bet was placed on.
    pub tokens: usize,
    /// log₁₀ of the most that it ever had.
    pub log10_e: f64,
    /// The share of the bug that explains the texts best.
    pub strength: f64,
    /// Total variation per token of the whole bug.
    pub tv: f64,
    /// What the total variation in this direction is below, at the level.
    pub tv_bound: Option<f64>,
    /// What it must be so that nine of ten such audits refute it.
    pub tv_detectable: Option<f64>,
}

impl AuditVerdict {
    /// The verdict at a level, given an audit of the same program without speculation, if there
    /// is one.
    pub fn of(own: &TokenAudit, plain: Option<&TokenAudit>, limits: AuditLimits) -> Self {
        let AuditLimits { level, tie } = limits;
        let (placed, missing): (Vec<&Bet>, Vec<&Bet>) =
            own.bets.iter().partition(|bet| bet.tokens > 0);
        let needed = (1.0 / level).ln();
        // Other arithmetic shows in plain texts, too; only what is beyond it counts.
        let floor = plain.map_or(0.0, |plain| plain.best.max(0.0));
        let impossible = limits.impossible(own);
        let floor_impossible = plain.is_some_and(|plain| !limits.impossible(plain).is_empty());
        let beyond = !impossible.is_empty() && !floor_impossible;
        let refuted = beyond || own.best - floor >= needed;
        let each = ((own.bets.len() + own.learnt.len()) as f64).ln();
        let known = placed.iter().map(|bet| bug(bet, level, needed + each));
        let learnt = own.learnt.iter().filter(|bet| bet.tokens > 0).map(unknown_bug);
        let mut bets = known.chain(learnt).collect::<Vec<_>>();
        bets.sort_by(|a, b| b.log10_e.total_cmp(&a.log10_e));
        let best = bets.first().filter(|bet| refuted && bet.log10_e >= log10(needed));
        Self {
            texts: own.texts,
            tokens: own.tokens,
            level,
            refuted,
            log10_e: log10(own.best),
            plain_log10_e: plain.map(|plain| log10(plain.best)),
            ties: own.impossible.iter().filter(|token| token.gap <= tie).count(),
            impossible: impossible.len(),
            first_impossible: impossible.first().copied().cloned(),
            bug: best.map(|bet| bet.bug),
            bets,
            not_placed: {
                let learnt = own.learnt.iter().filter(|bet| bet.tokens == 0);
                let learnt = learnt.map(|bet| bet.bug.name);
                missing.iter().map(|bet| bet.bug.name).chain(learnt).collect()
            },
        }
    }
}

/// A bet that learns has no law of its own, of which a share could be excluded.
fn unknown_bug(bet: &LearntBet) -> AuditedBug {
    AuditedBug {
        bug: bet.bug.name,
        summary: bet.bug.summary,
        seen: "-",
        tokens: bet.tokens,
        log10_e: log10(bet.wealth.best()),
        strength: bet.wealth.strength(),
        tv: bet.mean_distance(),
        tv_bound: None,
        tv_detectable: None,
    }
}

impl AuditLimits {
    fn impossible(self, audit: &TokenAudit) -> Vec<&ImpossibleToken> {
        audit.impossible.iter().filter(|token| token.gap > self.tie).collect()
    }
}

fn bug(bet: &Bet, level: f64, needed: f64) -> AuditedBug {
    let tv = bet.mean_distance();
    AuditedBug {
        bug: bet.bug.name,
        summary: bet.bug.summary,
        seen: bet.bug.seen,
        tokens: bet.tokens,
        log10_e: log10(bet.wealth.best()),
        strength: bet.wealth.strength(),
        tv,
        tv_bound: bet.wealth.bound(level).map(|share| share * tv),
        tv_detectable: bet.detectable(needed).map(|share| share * tv),
    }
}
