//! The verdict of an audit.

use serde::Serialize;

use super::bet::Bet;
use super::impossible::ImpossibleToken;
use super::learnt::LearntBet;
use super::rates::{log_excess, shown_tie};
use super::settings::{OTHER_SETTINGS, SettingsBet};
use super::tokens::TokenAudit;
use super::wealth::log10;

/// When an audit refutes the completions.
#[derive(Debug, Clone, Copy)]
pub struct AuditLimits {
    /// The probability with which exact completions may be refuted.
    pub level: f64,
    /// Gap between logits that rounding differences may reverse. A token of probability 0 within
    /// this gap is no evidence.
    pub tie: f64,
}

/// The verdict of an audit. `docs/audit.md` describes the fields.
#[derive(Debug, Clone, Serialize)]
pub struct AuditVerdict {
    /// Number of sequences that were read.
    #[serde(rename = "texts")]
    pub sequences: usize,
    /// Number of their tokens.
    pub tokens: usize,
    /// Number of sequences that repeat another one and do not count.
    pub copies: usize,
    /// The probability with which exact completions may be refuted.
    pub level: f64,
    /// Whether the completions are refuted.
    pub refuted: bool,
    /// log₁₀ of the largest wealth of a bet that is split over all bugs.
    pub log10_e: f64,
    /// The same for the completions without speculation.
    pub plain_log10_e: Option<f64>,
    /// The gap between logits that counts as a tie: the stated one, or a larger one that the
    /// completions without speculation show.
    pub tie: f64,
    /// Tokens with p = 0 that are within a tie of one with p > 0.
    pub ties: usize,
    /// Other tokens with p = 0.
    pub impossible: usize,
    /// The first of them.
    #[serde(skip)]
    pub first_impossible: Option<ImpossibleToken>,
    /// Number of such tokens in the completions without speculation.
    pub plain_impossible: Option<usize>,
    /// log₁₀ of the e-value against tokens with p = 0 that are no more frequent than in those.
    pub log10_e_impossible: Option<f64>,
    /// The bug, if its bet alone refutes the completions and the evidence excludes all others.
    pub bug: Option<&'static str>,
    /// The bugs that the evidence does not exclude, best first, if the best bet alone refutes.
    pub alike: Vec<&'static str>,
    /// The bets that could be placed, best first.
    pub bets: Vec<AuditedBug>,
    /// The bugs on which no bet could be placed.
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
    /// Number of tokens that the bet was placed on.
    pub tokens: usize,
    /// log₁₀ of its largest wealth.
    pub log10_e: f64,
    /// The logarithm of its wealth in the end.
    #[serde(skip)]
    log: f64,
    /// The share of the bug that explains the completions best.
    pub strength: f64,
    /// Total variation per token of the full bug.
    pub tv: f64,
    /// Upper bound on the total variation in this direction, at the level.
    pub tv_bound: Option<f64>,
    /// The total variation that nine of ten such audits would refute.
    pub tv_detectable: Option<f64>,
}

impl AuditVerdict {
    /// The verdict at a level; `plain` is an audit of the same program without speculation.
    pub fn of(own: &TokenAudit, plain: Option<&TokenAudit>, limits: AuditLimits) -> Self {
        let level = limits.level;
        let needed = (1.0 / level).ln();
        // Rounding differences show in plain completions, too; only what exceeds them counts.
        let floor = plain.map_or(0.0, |plain| plain.best.max(0.0));
        let excess = plain.map(|plain| log_excess(own, plain, limits.tie));
        // Two e-values share the level if there are plain completions.
        let most = match excess {
            Some(excess) => (own.best - floor).max(excess) - 2_f64.ln(),
            None => own.best,
        };
        let beyond = |audit| impossible(audit, limits.tie).next().is_some();
        let refuted = most >= needed || (beyond(own) && !plain.is_some_and(beyond));
        let tie = plain.map_or(limits.tie, |plain| shown_tie(plain, limits.tie));
        let each = (own.stakes() as f64).ln();
        let known = own.bets.iter().filter(|bet| bet.tokens > 0);
        let known = known.map(|bet| bug(bet, level, needed + each));
        let learnt = own.learnt.iter().filter(|bet| bet.tokens > 0).map(unknown_bug);
        let settings = [&own.settings].into_iter().filter(|bet| bet.tokens > 0).map(settings);
        let mut bets = known.chain(settings).chain(learnt).collect::<Vec<_>>();
        bets.sort_by(|a, b| b.log10_e.total_cmp(&a.log10_e));
        let alike = if refuted { alike(&bets, needed) } else { Vec::new() };
        let missing = own.bets.iter().filter(|bet| bet.tokens == 0).map(|bet| bet.bug.name);
        let unlearnt = own.learnt.iter().filter(|bet| bet.tokens == 0).map(|bet| bet.bug.name);
        Self {
            sequences: own.lengths.len(),
            tokens: own.tokens,
            copies: own.copies.count,
            level,
            refuted,
            log10_e: log10(own.best),
            plain_log10_e: plain.map(|plain| log10(plain.best)),
            tie,
            ties: own.impossible.len() - impossible(own, tie).count(),
            impossible: impossible(own, tie).count(),
            plain_impossible: plain.map(|plain| impossible(plain, tie).count()),
            log10_e_impossible: excess.map(log10),
            first_impossible: impossible(own, tie).next().cloned(),
            bug: alike.first().filter(|_| alike.len() == 1).copied(),
            alike,
            bets,
            not_placed: missing.chain(unlearnt).collect(),
        }
    }
}

/// Of a grid, no single share can be excluded.
fn settings(bet: &SettingsBet) -> AuditedBug {
    let (summary, strength, tv) = bet.likeliest();
    AuditedBug {
        bug: OTHER_SETTINGS,
        summary,
        seen: "-",
        tokens: bet.tokens,
        log10_e: log10(bet.best()),
        log: bet.log(),
        strength,
        tv,
        tv_bound: None,
        tv_detectable: None,
    }
}

/// A learning bet has no fixed distribution, so no share of it can be excluded.
fn unknown_bug(bet: &LearntBet) -> AuditedBug {
    AuditedBug {
        bug: bet.bug.name,
        summary: bet.bug.summary,
        seen: "-",
        tokens: bet.tokens,
        log10_e: log10(bet.wealth.best()),
        log: bet.wealth.log(),
        strength: bet.wealth.strength(),
        tv: bet.mean_distance(),
        tv_bound: None,
        tv_detectable: None,
    }
}

/// The tokens whose gap is no tie.
fn impossible(audit: &TokenAudit, tie: f64) -> impl Iterator<Item = &ImpossibleToken> {
    audit.impossible.iter().filter(move |token| token.gap > tie)
}

/// The bugs that the evidence does not exclude, best first; none if the best bet alone does not
/// refute the completions. The wealth of a bet is the likelihood of its bug, relative to exactness,
/// so a bug is excluded if another one is more likely by the inverse of the level.
fn alike(bets: &[AuditedBug], needed: f64) -> Vec<&'static str> {
    let most = bets.iter().map(|bet| bet.log).fold(f64::NEG_INFINITY, f64::max);
    let mut alike = bets.iter().filter(|bet| bet.log > most - needed).collect::<Vec<_>>();
    alike.sort_by(|a, b| b.log.total_cmp(&a.log));
    let refutes = alike.first().is_some_and(|best| best.log10_e >= log10(needed));
    alike.iter().filter(|_| refutes).map(|bet| bet.bug).collect()
}

fn bug(bet: &Bet, level: f64, needed: f64) -> AuditedBug {
    let tv = bet.mean_distance();
    AuditedBug {
        bug: bet.bug.name,
        summary: bet.bug.summary,
        seen: bet.bug.seen,
        tokens: bet.tokens,
        log10_e: log10(bet.wealth.best()),
        log: bet.wealth.log(),
        strength: bet.wealth.strength(),
        tv,
        tv_bound: bet.wealth.bound(level).map(|share| share * tv),
        tv_detectable: bet.detectable(needed).map(|share| share * tv),
    }
}
